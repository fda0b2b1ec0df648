/* The order of search results: pages that teach, then the reference. A page whose title is the query comes before pages that
   only contain it. Decisions are not in the results. The figures are those of Sphinx, except for `score`. */
var Scorer = {
  score: ([page, title, , , score, , kind]) => {
    const rooms = { "start/": 8, "ideas/": 8, "how-to/": 5, "coming-from/": 2, "decisions/": -12 };
    const room = Object.keys(rooms).find((name) => page.startsWith(name));
    const named = kind === "title" && !title.includes(" > ") ? 15 : 0;
    return score + (rooms[room] || 0) + named;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
