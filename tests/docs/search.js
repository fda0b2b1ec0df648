// What the site's search finds: `node search.js SITE QUERY...` prints one line of JSON, the pages of each query, best first.
// It runs the site's own search, with its index and scorer, without a browser.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const read = (name) => fs.readFileSync(path.join(site, name), "utf8");
const quiet = { readyState: "loading", addEventListener() {}, getElementById: () => ({ lastChild: null }), querySelector: () => null, documentElement: { dataset: { content_root: "" } } };
const context = vm.createContext({ document: quiet, console, navigator: {}, localStorage: { removeItem() {}, setItem() {} } });
context.window = context;
for (const name of ["doctools.js", "language_data.js", "scorer.js", "sphinx_highlight.js", "searchtools.js"]) {
  if (fs.existsSync(path.join(site, "_static", name))) vm.runInContext(read(`_static/${name}`), context, { filename: name });
}
vm.runInContext(read("searchindex.js"), context);
context.queries = queries;
const found = vm.runInContext(
  `queries.map((query) => {
     const [words, terms, excluded, highlighted, objects] = Search._parseQuery(query);
     const results = Search._performSearch(words, terms, excluded, highlighted, objects);  // the best is last
     return [...new Set(results.reverse().map((result) => result[0]))];
   })`,
  context,
);
console.log(JSON.stringify(found));
