"""Reading models of other libraries: what they do to arrays, as a program that the theory knows."""
