//! What an accessibility checker looks for, on the page as it is drawn: names, labels, landmarks, headings, contrast.

use super::chromium::Browser;

const AUDIT: &str = r#"(() => {
  const faults = [];
  const seen = (el) => el.checkVisibility({ visibilityProperty: true, opacityProperty: false, contentVisibilityAuto: false });
  const say = (el, what) => faults.push(what + ': ' + el.outerHTML.slice(0, 140));
  const all = (s) => [...document.querySelectorAll(s)].filter(seen);
  const name = (el) => {
    const by = el.getAttribute('aria-labelledby');
    if (by) return by.split(/\s+/).map((id) => (document.getElementById(id) || {}).textContent || '').join(' ').trim();
    if (el.getAttribute('aria-label')) return el.getAttribute('aria-label').trim();
    if (el.labels && el.labels.length) return [...el.labels].map((l) => l.textContent).join(' ').trim();
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName)) return '';
    return el.textContent.trim();
  };
  // Controls have names; pictures have them or are hidden.
  for (const el of all('a[href], button, input:not([type=hidden]), select, textarea, summary, [role=img], [tabindex="0"]'))
    if (!name(el)) say(el, 'no name');
  for (const el of all('svg')) if (el.getAttribute('aria-hidden') !== 'true') say(el, 'picture');
  for (const el of all('fieldset')) if (!el.querySelector('legend')) say(el, 'no legend');
  for (const el of all('dialog, nav, section, [role=search]')) if (!name(el)) say(el, 'region without name');
  // One title, one h1, landmarks, no heading skipped.
  if (!document.title.trim() || !document.documentElement.lang) faults.push('no title or language');
  if (all('h1').length !== 1) faults.push(all('h1').length + ' h1');
  if (all('main').length !== 1 || all('header').length !== 1 || all('nav').length !== 1) faults.push('landmarks');
  let last = 1;
  for (const el of all('main h1, main h2, main h3')) {
    const level = Number(el.tagName[1]);
    if (level > last + 1) say(el, 'heading skipped');
    last = level;
  }
  // Names of elements are names of one element, and what refers to them finds them.
  const ids = new Set();
  for (const el of document.querySelectorAll('[id]')) { if (ids.has(el.id)) say(el, 'id twice'); ids.add(el.id); }
  for (const el of document.querySelectorAll('[for], [aria-labelledby], [aria-describedby], [list]'))
    for (const a of ['for', 'aria-labelledby', 'aria-describedby', 'list'])
      for (const id of (el.getAttribute(a) || '').split(/\s+/).filter(Boolean)) if (!ids.has(id)) say(el, 'refers to nothing');
  for (const el of document.querySelectorAll('[tabindex]')) if (el.tabIndex > 0) say(el, 'tab order');
  for (const el of document.querySelectorAll('ul, ol'))
    for (const child of el.children) if (child.tagName !== 'LI') say(el, 'list with others');
  // Contrast of every text with what is behind it.
  const rgb = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n.slice(0, 3), 1] : n; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (el) => {
    const layers = [];
    for (let at = el; at; at = at.parentElement) { const c = rgb(getComputedStyle(at).backgroundColor); layers.push(c); if (c[3] === 1) break; }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const check = (el, colour) => {
    const style = getComputedStyle(el);
    const back = behind(el);
    const [a, b] = [light(over(rgb(colour || style.color), back)), light(back)];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) say(el, 'contrast ' + ratio.toFixed(2));
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const done = new Set();
  while (walk.nextNode()) {
    const el = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || done.has(el) || !seen(el) || el.closest('.sr, .skip, option, datalist, noscript')) continue;
    done.add(el);
    check(el);
  }
  for (const el of all('input[placeholder]')) check(el, getComputedStyle(el, '::placeholder').color);
  // Nothing is wider than the window, and what is pressed is large enough.
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) {
    faults.push('scrolls sideways: ' + document.documentElement.scrollWidth);
    for (const el of all('body *')) if (el.getBoundingClientRect().right > innerWidth + 1 && !el.closest('.skip, .sr')) { say(el, 'too wide'); break; }
  }
  for (const el of all('button, .button, select, summary, input:not([type=hidden])')) {
    const box = (el.closest('label') || el).getBoundingClientRect();
    if (box.height < 24 || box.width < 24) say(el, 'small ' + box.width + 'x' + box.height);
  }
  return faults;
})()"#;

/// Fails with everything that is wrong on the page.
pub(crate) fn audit(browser: &mut Browser, what: &str) {
    let faults = browser.js(AUDIT);
    let faults = faults.as_array().unwrap();
    let list: Vec<_> = faults.iter().map(|it| it.as_str().unwrap()).collect();
    assert!(list.is_empty(), "{what}:\n{}", list.join("\n"));
}

/// Goes over the page with the Tab key: every stop shows where it is.
pub(crate) fn focus_is_seen(browser: &mut Browser, what: &str) {
    browser.js("document.activeElement.blur()");
    let mut stops = std::collections::BTreeSet::new();
    for _ in 0..60 {
        browser.key("Tab");
        let at = browser.text(
            "(() => { const el = document.activeElement; if (el === document.body) return ''; \
             const of = el.closest('.chip') ? el.nextElementSibling : el; const s = getComputedStyle(of); \
             const isSeen = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2; \
             return (isSeen ? 'seen ' : 'HIDDEN ') + el.outerHTML.slice(0, 100); })()",
        );
        assert!(!at.starts_with("HIDDEN"), "{what}: {at}");
        if at.is_empty() {
            break;
        }
        stops.insert(at);
    }
    assert!(stops.len() > 4, "{what}: {stops:?}");
}
