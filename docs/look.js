// What a reader of this page cannot see, one sentence each. `docs/look.py` calls the function in a browser.
//
// A box whose content is wider than itself lets it stand out, cuts it, or scrolls. On a desk nothing says that a box
// scrolls, so that what it hides is lost; on a phone a thumb finds it, but pictures have to fit there too. Boxes of
// a pixel are meant for programs that read a page aloud, and clip by design.
async ({ phone, legible }) => {
    const SLACK = 2; // pixels that rounding may add
    const named = (e) => {
        const kind = [...e.classList].slice(0, 2).map((c) => `.${c}`).join("");
        const words = (e.getAttribute("alt") || e.textContent).trim().split(/\s+/).join(" ");
        return `${e.localName}${kind} "${words.slice(0, 40)}"`;
    };
    const aloud = (e) => {
        const { clipPath, clip, overflow, position } = getComputedStyle(e);
        const small = e.offsetWidth <= 1 || e.offsetHeight <= 1;
        return (small && overflow !== "visible") || clipPath.startsWith("inset")
            || (position === "absolute" && clip.startsWith("rect"));
    };
    const seen = (e) => {
        if (!e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false;
        for (let at = e; at; at = at.parentElement) if (at instanceof HTMLElement && aloud(at)) return false;
        return true;
    };

    // A box may be wider than its content, whose words say whether any of it stands where it should not.
    const content = (e) => {
        const words = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
        let right = -Infinity;
        const range = document.createRange();
        const reach = (rect) => (right = Math.max(right, rect.width > 1 ? rect.right : right));
        while (words.nextNode()) {
            if (!words.currentNode.data.trim() || !seen(words.currentNode.parentElement)) continue;
            range.selectNodeContents(words.currentNode);
            for (const rect of range.getClientRects()) reach(rect);
        }
        for (const picture of e.querySelectorAll("img, svg, canvas")) if (seen(picture)) reach(picture.getBoundingClientRect());
        return right;
    };

    const scrolled = (e) => {
        for (let at = e.parentElement; at && at !== document.body; at = at.parentElement)
            if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return true;
        return false;
    };

    const found = new Map();
    for (const e of document.body.querySelectorAll("*")) {
        if (!(e instanceof HTMLElement) || e.clientWidth <= 1) continue;
        const wide = e.scrollWidth - e.clientWidth, high = e.scrollHeight - e.clientHeight;
        if ((wide <= SLACK && high <= SLACK) || !seen(e)) continue;
        const { overflowX, overflowY } = getComputedStyle(e);
        // A row that is turned round begins at its end, and what comes first stands before the box.
        const lefts = [...e.querySelectorAll("*")].map((c) => c.getBoundingClientRect()).filter((c) => c.width > 1).map((c) => c.left);
        const before = Math.round(e.getBoundingClientRect().left - Math.min(...lefts));
        if (["auto", "scroll"].includes(overflowX) && wide > SLACK && before > SLACK) {
            found.set(e, `begins ${before} px after its start`);
            continue;
        }
        // What stands out of a box within one that scrolls is found there.
        const out = overflowX === "visible" && wide > SLACK && !scrolled(e) ? Math.round(content(e) - e.getBoundingClientRect().right) : 0;
        if (overflowX === "visible" && wide > SLACK) out > SLACK && found.set(e, `lets ${out} px stand out of its box`);
        else if (wide > SLACK && (overflowX === "hidden" || overflowX === "clip")) found.set(e, `cuts ${wide} px off`);
        else if (wide > SLACK && (!phone || [...e.querySelectorAll("img, svg")].some(seen))) found.set(e, `hides ${wide} px until it is scrolled`);
        else if (high > 2 * SLACK && (overflowY === "hidden" || overflowY === "clip")) found.set(e, `cuts ${high} px off below`);
    }
    // The innermost box says it best: what stands out of it stands out of those around it.
    const told = [...found].filter(([e]) => ![...found.keys()].some((other) => other !== e && e.contains(other)));

    const labels = async (image) => {
        if (!/\.svg($|\?|#)|^data:image\/svg/.test(image.currentSrc)) return null;
        const text = await (await fetch(image.currentSrc)).text();
        const picture = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
        const across = Number((picture.getAttribute("viewBox") || "").split(/[\s,]+/)[2]) || parseFloat(picture.getAttribute("width"));
        // Indices and exponents are parts of a label, 0.7 times as large as the rest of it.
        const sizes = [...text.matchAll(/(<tspan[^>]*?)?font(?:-size)?:[^;"]*?([\d.]+)px/g)].map((size) => Number(size[2]) / (size[1] ? 0.7 : 1));
        return sizes.length ? (Math.min(...sizes) * image.getBoundingClientRect().width) / across : null;
    };
    for (const image of document.images) {
        // A picture without words beside it is an ornament, such as a thumbnail: the page that it leads to shows it.
        if (!image.complete || !seen(image) || image.getAttribute("alt") === "") continue;
        const size = await labels(image);
        if (size !== null && size < legible - 0.05) told.push([image, `has labels of ${size.toFixed(1)} px, and ${legible} can be read`]);
    }
    return told.map(([e, what]) => `${named(e)} ${what}`);
}
