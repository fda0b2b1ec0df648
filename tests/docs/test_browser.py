"""The site in a real browser: search works, no page is wider than the window, and text is readable in light and dark."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from contextlib import contextmanager

import pages
import pytest

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 380, "height": 800}

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH: apt-get install chromium"),
    # A browser's pipes are closed by the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Write nothing to stderr."""


@pytest.fixture(scope="module")
def site_address(built_site):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built_site))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'panestream[docs]'")
    with api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-quic"])
        yield opened
        opened.close()


@contextmanager
def tab(browser, size, colours="light"):
    context = browser.new_context(viewport=size, color_scheme=colours)
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    # Loading the next page aborts requests of the last one. They are not failures.
    page.on(
        "requestfailed",
        lambda request: request.failure == "net::ERR_ABORTED" or page.complaints.append(f"failed: {request.url}"),
    )
    page.on(
        "request", lambda request: request.url.startswith(("http://127.0.0.1", "data:")) or page.complaints.append(request.url)
    )
    try:
        yield page
    finally:
        context.close()


@pytest.mark.parametrize(
    ("language", "words", "wanted"),
    [
        ("", "SlidingEventTimeWindows", "reference/api/assigners.html"),
        ("", "savepoint", "how-to/savepoints.html"),
        ("", "late", "ideas/lateness.html"),
        ("", "session", "ideas/session.html"),
        ("zh/", "触发器", "zh/ideas/triggers.html"),
        ("zh/", "迟到数据", "zh/start/tutorial/2-late-rows.html"),
        ("zh/", "会话窗口", "zh/ideas/session.html"),
    ],
)
def test_search_finds_a_page(browser, site_address, language, words, wanted):
    with tab(browser, WIDE) as page:
        page.goto(f"{site_address}/{language}index.html")
        page.fill(".sidebar-search", words)
        page.press(".sidebar-search", "Enter")
        page.wait_for_selector("ul.search li a")
        page.wait_for_function("document.querySelector('.search-summary')?.innerText")  # shown after all results are listed
        found = page.eval_on_selector_all("ul.search li a", "all => all.map(each => each.pathname)")
        assert f"/{wanted}" in found[:6]
        assert page.complaints == []


def test_search_for_an_unknown_word_has_no_results(browser, site_address):
    with tab(browser, WIDE) as page:
        page.goto(f"{site_address}/search.html?q=xylophonequartz")
        page.wait_for_function("document.querySelector('.search-summary')?.textContent.includes('did not match')")
        assert page.query_selector_all("ul.search li a") == []


OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  const over = document.documentElement.scrollWidth - wide;
  if (over <= 0) return null;
  const all = [...document.querySelectorAll('article *')].filter(each => each.getBoundingClientRect().right > wide + 1);
  return [over, ...all.slice(0, 3).map(each => each.outerHTML.slice(0, 120))];
}"""


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_page_is_wider_than_the_window(browser, site_address, size):
    wrong = {}
    with tab(browser, size) as page:
        for path in pages.all_pages():
            name = path.relative_to(pages.DOCS).with_suffix(".html").as_posix()
            page.goto(f"{site_address}/{name}", wait_until="domcontentloaded")
            if over := page.evaluate(OVERFLOW):
                wrong[name] = over
        assert page.complaints == []
    assert wrong == {}


CONTRAST = """() => {
  const light = colour => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    const of = each => (each /= 255) <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4;
    return a === 0 ? null : 0.2126 * of(r) + 0.7152 * of(g) + 0.0722 * of(b);
  };
  const behind = each => {
    for (; each; each = each.parentElement) {
      const found = light(getComputedStyle(each).backgroundColor);
      if (found !== null) return found;
    }
    return 1;
  };
  const poor = [];
  for (const each of document.querySelectorAll('article p, article li, article code, article pre span, article a, article h1, figure text')) {
    if (!each.textContent.trim() || !each.getClientRects().length) continue;
    const style = getComputedStyle(each);
    const ink = light(each instanceof SVGElement ? style.fill : style.color), paper = behind(each);
    if (ink === null) continue;
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (ratio < 3) poor.push([ratio.toFixed(2), each.outerHTML.slice(0, 150)]);
  }
  return [poor.slice(0, 5), behind(document.querySelector('article'))];
}"""


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_text_has_enough_contrast(browser, site_address, colours):
    with tab(browser, WIDE, colours) as page:
        for name in ("index", "reference/errors", "reference/api/streams", "how-to/kafka", "zh/index"):
            page.goto(f"{site_address}/{name}.html")
            poor, paper = page.evaluate(CONTRAST)
            assert poor == [], name
            assert (paper > 0.5) == (colours == "light"), name


def test_the_other_language_is_one_click_away(browser, site_address):
    with tab(browser, WIDE) as page:
        page.goto(f"{site_address}/index.html")
        page.click(".language-switch a")
        page.wait_for_url("**/zh/index.html")
        assert page.get_attribute("html", "lang").startswith("zh")
        page.click(".language-switch a")
        page.wait_for_url("**/index.html")
        assert page.get_attribute("html", "lang") == "en"
