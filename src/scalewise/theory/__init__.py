"""What the theory says of a network at initialisation: exact recursions, no randomness."""

from scalewise.theory._predict import predict

__all__ = ["predict"]
