// The pages work without this file. It brings changes in as they happen, sends the filter by itself, and shows the
// answer form as a dialog.
(() => {
  'use strict';
  // Without this a page that loads itself again has no fields to type into.
  document.body.dataset.script = '';
  const PERIOD = 5000;
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // What somebody is typing into is left alone until they have done so.
  const isTyped = (field) => field.type === 'hidden' ? false
    : field.type === 'checkbox' || field.type === 'radio' ? field.checked !== field.defaultChecked
    : field.tagName === 'SELECT' ? false : field.value !== field.defaultValue;
  const isBusy = (region) => all('input, textarea, select', region)
    .some((field) => field === document.activeElement || isTyped(field));

  // The markup that the server sent, because opening a <details> changes what is in the page.
  const sent = new Map();
  for (const region of all('[data-live]')) sent.set(region.id, region.outerHTML);

  let isStale = false;
  let isLoading = false;

  const take = (page) => {
    let left = false;
    for (const region of all('[data-live]')) {
      const fresh = page.getElementById(region.id);
      if (!fresh || sent.get(region.id) === fresh.outerHTML) continue;
      if (isBusy(region)) { left = true; continue; }
      const focused = region.contains(document.activeElement) ? document.activeElement.id : '';
      const opened = all('details[open]', region).map((it) => it.id);
      if (region.matches('details[open]')) opened.push(region.id);
      sent.set(region.id, fresh.outerHTML);
      const adopted = document.adoptNode(fresh);
      region.replaceWith(adopted);
      for (const id of opened) { const it = document.getElementById(id); if (it) it.open = true; }
      if (focused) { const it = document.getElementById(focused); if (it) it.focus({ preventScroll: true }); }
    }
    return left;
  };

  const refresh = async () => {
    if (isLoading || document.hidden) { isStale = true; return; }
    isLoading = true;
    isStale = false;
    try {
      const answer = await fetch(location.href, { credentials: 'same-origin', redirect: 'error' });
      if (!answer.ok) { isStale = true; return; }
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      document.body.dataset.version = page.body.dataset.version || '';
      isStale = take(page);
    } catch { isStale = true; } finally { isLoading = false; }
  };

  // Hidden pages let go of their connection: a browser has few for one host.
  let source = null;
  const listen = () => {
    if (source) return;
    source = new EventSource('/events');
    source.addEventListener('changed', (event) => {
      if (event.data !== document.body.dataset.version) refresh();
    });
  };
  const follow = () => {
    if (document.hidden) { if (source) source.close(); source = null; return; }
    listen();
  };
  if (document.body.dataset.version) {
    follow();
    document.addEventListener('visibilitychange', follow);
    addEventListener('pagehide', () => { if (source) source.close(); source = null; });
    addEventListener('pageshow', follow);
    setInterval(() => { if (isStale || !source || source.readyState !== EventSource.OPEN) refresh(); }, PERIOD);
  }

  // The filter.
  const filter = $('#filter');
  if (filter) {
    const boxes = all('input[name=state]', filter);
    filter.addEventListener('change', (event) => { if (event.target.name === 'state') filter.requestSubmit(); });
    filter.addEventListener('submit', () => {
      // All of them is what an address without any says.
      const every = boxes.every((box) => box.checked);
      for (const box of boxes) box.disabled = every;
      const words = $('#q', filter);
      words.disabled = words.value === '';
    });
    addEventListener('pageshow', () => {
      for (const field of [...boxes, $('#q', filter)]) field.disabled = false;
    });
  }

  // The answer over the board.
  const dialog = $('#answer-dialog');
  const here = () => location.pathname + location.search;
  document.addEventListener('click', async (event) => {
    const link = event.target.closest && event.target.closest('a[data-answer]');
    if (!link || !dialog || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    try {
      const answer = await fetch(link.href, { credentials: 'same-origin' });
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const form = $('#answer-form', page);
      if (!form) { location.href = link.href; return; }
      const body = $('[data-body]', dialog);
      body.replaceChildren(document.adoptNode(form));
      $('input[name=back]', body).value = here();
      $('h2', dialog).textContent = $('h1', page).textContent;
      dialog.showModal();
      $('input:not([type=hidden]), textarea', body).focus();
    } catch { location.href = link.href; }
  });
  if (dialog) $('[data-close]', dialog).addEventListener('click', () => dialog.close());

  // A second click writes nothing a second time.
  document.addEventListener('submit', (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== 'post') return;
    if ('sent' in form.dataset) { event.preventDefault(); return; }
    form.dataset.sent = '';
    // Whoever stops the page before its answer may try again.
    setTimeout(() => { delete form.dataset.sent; }, 5000);
  });
  addEventListener('pageshow', () => { for (const form of all('form[data-sent]')) delete form.dataset.sent; });

  // The bell closes like a menu.
  document.addEventListener('keydown', (event) => {
    const bell = $('#bell');
    if (event.key === 'Escape' && bell && bell.open && !(dialog && dialog.open)) {
      bell.open = false;
      $('summary', bell).focus();
    }
  });
  document.addEventListener('click', (event) => {
    const bell = $('#bell');
    if (bell && bell.open && !bell.contains(event.target) && !isBusy(bell)) bell.open = false;
  });

  // Finding among what may be chosen.
  const find = $('#find');
  if (find) {
    find.closest('.find').hidden = false;
    const rows = all('.picks label');
    find.addEventListener('input', () => {
      const words = find.value.normalize('NFC').toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.normalize('NFC').toLowerCase();
        row.hidden = !$('input', row).checked && !words.every((word) => text.includes(word));
      }
    });
    find.addEventListener('keydown', (event) => { if (event.key === 'Enter') event.preventDefault(); });
  }
})();
