/* Which page a search names first: those that teach, before the reference and before decisions. The figures are Sphinx's, but for `score`. */
var Scorer = {
  score: ([page, , , , score]) => {
    const rooms = { "start/": 8, "ideas/": 8, "how-to/": 5, "coming-from/": 2, "decisions/": -12 };
    const room = Object.keys(rooms).find((name) => page.startsWith(name));
    return score + (rooms[room] || 0);
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
