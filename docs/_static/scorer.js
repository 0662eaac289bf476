// Order of what a search finds: who types the name of a verb wants its page of the reference, then the other names,
// then pages whose title it is, then all pages that use the word. Sphinx puts this file into its search.
const KINDS = { function: 400, method: 350, class: 300, data: 250, attribute: 200, property: 200, module: 150 };
var Scorer = {
    score: ([docname, title, anchor, descr, score, filename, kind]) => {
        const asked = (new URLSearchParams(location.search).get("q") || "").trim().replace(/^sw\./, "").replace(/\(\)$/, "");
        if (kind !== "object") return title.toLowerCase() === asked.toLowerCase() ? score + 100 : score;
        const parts = title.split("."), wanted = asked.split(".");
        const last = parts.slice(-wanted.length).join(".");
        if (last.toLowerCase() !== asked.toLowerCase()) return score - 8; // a part of a longer name
        const what = Object.keys(KINDS).find((one) => (descr || "").startsWith(`Python ${one}`));
        return score + (KINDS[what] || 100) + (last === asked ? 20 : 0) - 5 * parts.length;
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
// Names are asked for as they are typed; `sw` is the package itself.
var splitQuery = (query) =>
    query.replace(/^\s*(sw|scalewise)\./, "").split(/[^\p{Letter}\p{Number}_\p{Emoji_Presentation}]+/gu).filter((term) => term);
