// Moves the sliders as a hand does, and tells in the title what the page showed before and after.
addEventListener("load", async () => {
  const settled = async () => { for (let k = 0; k < 20; k++) await null; }; // page and uPlot draw in microtasks
  const seen = () => ({
    values: Object.fromEntries([...document.querySelectorAll("[data-value]")].map((c) => [c.id.slice(6), Number(c.dataset.value)])),
    pictures: Object.fromEntries([...document.querySelectorAll("figure [role=img]")].map((p) => [p.id, p.querySelector("canvas")?.toDataURL()])),
    said: [...document.querySelectorAll("figure [role=img]")].map((p) => p.getAttribute("aria-label")),
  });
  const move = async (name, place, kind = "input") => {
    const control = document.getElementById(name);
    control.value = place;
    control.dispatchEvent(new Event(kind, { bubbles: true }));
    await settled();
  };
  await settled();
  const states = [seen()];
  for (const [name, place, kind] of MOVES) { await move(name, place, kind); states.push(seen()); }
  parent.document.title = JSON.stringify({
    states: states.map(({ values, said }) => ({ values, said })),
    changed: states.slice(1).map((now, k) => Object.keys(now.pictures).filter((p) => now.pictures[p] !== states[k].pictures[p])),
    drawn: Object.keys(states[0].pictures).filter((p) => states[0].pictures[p]),
    unlabelled: [...document.querySelectorAll("input, select")].filter((c) => !c.labels.length && !c.getAttribute("aria-label")).length,
    innerWidth,
    overflow: document.documentElement.scrollWidth - innerWidth,
    fetched: performance.getEntriesByType("resource").filter((r) => !r.name.startsWith("data:")).length,
    hash: location.hash,
  });
});
