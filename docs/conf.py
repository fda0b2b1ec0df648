"""The site: `make docs` builds it. docs/decisions/0153 says why so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_ext"))
sys.path.insert(0, str(DOCS.parent / "src"))

import panestream  # noqa: E402 - of this folder, which may be an older version than the installed one

CHINESE = tags.has("zh")  # type: ignore[name-defined]  # noqa: F821 - Sphinx puts it here; `-t zh docs/zh`

project = "panestream"
author = "the panestream developers"
release = version = panestream.__version__
language = "zh_CN" if CHINESE else "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "panestream_docs"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_*", "Thumbs.db", *([] if CHINESE else ["zh"])]

# Where the repository is, for links to files that are not pages; without it the files are copied to the site.
panestream_repository = os.environ.get("PANESTREAM_REPOSITORY", "").rstrip("/")

# Which version this is and which others the site has, as scripts/make_versions.py sets them: "latest 0.2.0 0.1.0", this one first.
panestream_versions = os.environ.get("PANESTREAM_VERSIONS", "").split()

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 4  # as GitHub has them
myst_url_schemes = {"http": None, "https": None, "mailto": None, "site": "{{path}}", "place": "{{path}}#{{fragment}}"}
suppress_warnings: list[str] = []

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 90
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
highlight_language = "default"  # Python where it is, and no complaint where it is not

html_theme = "furo"
html_title = "panestream"
html_favicon = str(DOCS / "_static" / "favicon.svg")
html_static_path = [str(DOCS / "_static")]
templates_path = [str(DOCS / "_templates")]
html_css_files = ["panestream.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_search_scorer = str(DOCS / "_static" / "scorer.js")
html_last_updated_fmt = None
html_use_index = True
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/language.html",
        "sidebar/versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
        "color-code-background": "#f5f7fa",
    },
    "dark_css_variables": {"color-brand-primary": "#7db7f0", "color-brand-content": "#7db7f0"},
    "navigation_with_keys": True,
}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
