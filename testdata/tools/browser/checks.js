// Returns what a person could not read on this page, in sentences.
(scheme) => {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    found.push(`the page is ${root.scrollWidth} px wide, the screen ${root.clientWidth}`);
  }
  const rgb = (s) => (s.match(/[\d.]+/g) || []).map(Number);
  const light = (s) => {
    const [r, g, b] = rgb(s).slice(0, 3).map((v) => {
      v /= 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return getComputedStyle(e).backgroundColor;
    }
    return "rgb(255,255,255)";
  };
  const back = light(behind(document.body));
  if (scheme === "dark" ? back > 0.2 : back < 0.8) {
    found.push(`the background is ${behind(document.body)} where people want it ${scheme}`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const e = walker.currentNode.parentElement;
    if (!text || !e.checkVisibility() || e.closest("thead")) continue;
    texts++;
    const style = getComputedStyle(e);
    const a = light(style.color), b = light(behind(e));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    // 4.5 to 1 is what WCAG 2 asks of text (AA).
    if (contrast < 4.5) found.push(`"${text.slice(0, 40)}" has a contrast of ${contrast.toFixed(1)}`);
    if (parseFloat(style.fontSize) < 13) found.push(`"${text.slice(0, 40)}" is ${style.fontSize} high`);
  }
  if (texts < 10) found.push(`there are only ${texts} texts`);
  if (document.scripts.length > 0) found.push("there is a script");
  return found;
}
