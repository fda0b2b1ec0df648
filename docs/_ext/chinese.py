"""Search for Chinese pages without a dictionary: text is cut into single characters and pairs, a query into pairs.

Sphinx splits text into words with a package that it does not include, and queries at spaces. A query without spaces finds
nothing.
"""

from __future__ import annotations

import re

from sphinx.search import SearchLanguage

_RUN = re.compile(r"[\u3400-\u9fff]+|[a-zA-Z0-9_]+")


def pieces(text: str, *, singles: bool) -> list[str]:
    """Return Latin words unchanged and adjacent pairs of Chinese characters. With ``singles``, include single characters."""
    found = []
    for run in _RUN.findall(text):
        if run[0] < "\u3400":
            found.append(run)
            continue
        if singles or len(run) == 1:
            found += run
        found += [run[at : at + 2] for at in range(len(run) - 1)]
    return found


class PairsOfCharacters(SearchLanguage):
    """The splitter of Chinese pages for the search index, with the same rule for queries in the browser."""

    lang = "zh"
    language_name = "Chinese"
    js_splitter_code = r"""
var splitQuery = (query) =>
  (query.match(/[\u3400-\u9fff]+|[a-zA-Z0-9_]+/g) || []).flatMap((run) => {
    if (run[0] < "\u3400" || run.length === 1) return [run];
    return Array.from({ length: run.length - 1 }, (_, at) => run.slice(at, at + 2));
  });
"""

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx's name
        """Return the words of a text."""
        return pieces(input, singles=True)

    def stem(self, word: str) -> str:
        """Return the word unchanged."""
        return word.lower()

    def word_filter(self, word: str) -> bool:
        """Return whether a word is worth indexing."""
        return len(word) > 1 or word >= "\u3400"
