//! What the board draws.

use super::{Served, between, lane, served_six, ticket, wait_for};
use enode::tickets::{Folder, view};
use shared::ticket::Lane;

const LANES: [&str; 3] = ["waiting", "in_progress", "done"];

#[test]
fn r44_the_board_draws_what_the_list_says_in_its_order() {
    let mut files: Vec<(String, String)> = six_and_more();
    files.push(("가.md".to_owned(), ticket("한글", "priority: 5\n")));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    for files in [&files[..], &[][..]] {
        let panel = Served::new(files);
        let page = panel.page("/?done=1000");
        let list = view::page(&Folder::open(&panel.queue()).unwrap().read().unwrap());
        for (id, of) in LANES.into_iter().zip([Lane::Waiting, Lane::InProgress, Lane::Done]) {
            let listed: Vec<String> =
                list.tickets.iter().filter(|it| it.state.lane() == Some(of)).map(|it| it.stem.to_string()).collect();
            assert_eq!(lane(&page, id), listed, "{id}");
        }
        // And the words of every card.
        for it in list.tickets.iter().filter(|it| it.state.lane().is_some()) {
            let card = card(&page, it.stem.as_str());
            assert!(card.contains(&format!("meter m{}", it.effective)), "{card}");
            let waits = matches!(it.state.as_str(), "deps_wait");
            assert_eq!(card.contains("class=\"tag deps\""), waits, "{card}");
            assert_eq!(card.contains("class=\"tag answer\""), it.state.as_str() == "answer_wait", "{card}");
        }
    }
}

fn six_and_more() -> Vec<(String, String)> {
    let mut files: Vec<_> = super::six().into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    for (at, priority) in [1, 3, 5, 3, 1].into_iter().enumerate() {
        files.push((format!("p{at}.md"), ticket("p", &format!("priority: {priority}\ndeps: [p{}]\n", (at + 1) % 7))));
    }
    files
}

fn card(page: &str, stem: &str) -> String {
    between(page, &format!("id=\"card-{stem}\""), "</li>").first().unwrap().clone()
}

#[test]
fn a_card_says_what_holds_its_ticket() {
    let panel = served_six();
    let page = panel.page("/");
    let waits = card(&page, "waits");
    assert!(waits.contains("<span>deps</span> <bdi>open</bdi> <bdi>nowhere</bdi>"), "{waits}");
    assert!(waits.contains("there is no nowhere"), "{waits}");
    let asks = card(&page, "asks");
    assert!(
        asks.contains(">answer<") && asks.contains(" · ") && asks.contains(" days") && !asks.contains("<span>deps"),
        "{asks}"
    );
    // The meter with one notch is the whole sign.
    let low = card(&page, "low");
    assert!(low.contains("meter m1") && low.contains("Priority 1 of 5"), "{low}");
    assert!(!low.contains("tag deps") && !low.contains("tag answer") && !low.contains("warning"), "{low}");
    let busy = card(&page, "busy");
    assert!(busy.contains("me / 1"), "{busy}");
}

#[test]
fn r45_each_word_of_the_filter_shows_its_tickets_and_six_are_no_filter() {
    let panel = served_six();
    let shown = |query: &str| LANES.map(|id| lane(&panel.page(query), id).join(" ")).join(" | ");
    let all = shown("/");
    assert_eq!(all, "open waits asks low | busy | old");
    let words = ["open", "deps_wait", "answer_wait", "assigned", "in_progress", "done"];
    assert_eq!(shown(&format!("/?state={}", words.join("&state="))), all);
    for (query, lanes) in [
        ("/?state=open", "open low |  | "),
        ("/?state=deps_wait", "waits asks |  | "),
        ("/?state=answer_wait", "asks |  | "),
        ("/?state=assigned", " |  | "),
        ("/?state=in_progress", " | busy | "),
        ("/?state=done", " |  | old"),
        ("/?state=open&state=done", "open low |  | old"),
        ("/?q=LEAST+urgent", "low |  | "),
        ("/?q=which+colour", "asks |  | "),
        ("/?q=me+%2F+1", " | busy | "),
        ("/?q=nowhere", "waits |  | "),
        ("/?q=work&state=done", " |  | "),
    ] {
        assert_eq!(shown(query), lanes, "{query}");
    }
    let page = panel.page("/?state=open&state=done&q=o");
    for word in words {
        let is_checked = page.contains(&format!("value=\"{word}\" checked"));
        assert_eq!(is_checked, matches!(word, "open" | "done"), "{word}");
    }
    assert!(page.contains("name=\"q\" value=\"o\""));
}

#[test]
fn r47_the_bell_lists_every_accident_under_any_filter_and_forgets_them_by_itself() {
    let mut files: Vec<(String, String)> =
        (0..25).map(|at| (format!("s{at:02}.md"), ticket("stray", "session_id: x\n"))).collect();
    files.push(("fine.md".to_owned(), ticket("fine", "")));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let panel = Served::new(&files);
    for path in ["/", "/?state=done", "/?q=nothing", "/new", "/node", "/ticket/fine", "/ticket/fine/edit"] {
        let page = panel.page(path);
        let bell = between(&page, "id=\"accidents\"", "</ul>").first().unwrap().clone();
        assert_eq!(between(&bell, "/unassign\"", ">").len(), 25, "{path}");
        assert!(page.contains("Nobody picks up: 25"), "{path}");
    }
    let got = panel.post("/ticket/s00/unassign", &[("back", "/?state=done")]);
    assert_eq!((got.status, got.header("location")), (303, "/?state=done"));
    // That key and nothing else.
    assert_eq!(panel.read("s00.md"), ticket("stray", ""));
    assert!(panel.page("/").contains("Nobody picks up: 24"));
    for at in 1..25 {
        panel.write(&format!("s{at:02}.md"), &ticket("stray", ""));
    }
    let page = panel.page("/");
    assert!(!page.contains("Nobody picks up") && page.contains("Nothing needs you"));
}

#[test]
fn r48_the_total_is_more_than_the_lanes_by_the_accidents_exactly() {
    let panel = served_six();
    for more in 0..3 {
        let page = panel.page("/?done=100");
        let drawn: usize = LANES.map(|id| lane(&page, id).len()).iter().sum();
        let total = drawn + 1 + more;
        assert!(page.contains(&format!("role=\"status\">{total} tickets")), "{total}");
        assert!(page.contains(&format!("{} of them in no lane", 1 + more)));
        panel.write(&format!("more{more}.md"), &ticket("m", "session_id: y\n"));
    }
    let page = Served::new(&[("a.md", &ticket("a", ""))]).page("/");
    assert!(page.contains("role=\"status\">1 ticket") && !page.contains("in no lane"));
}

#[test]
fn done_tickets_are_drawn_twenty_at_a_time() {
    let files: Vec<(String, String)> = (0..45).map(|at| (format!("d{at:02}.done.md"), ticket("d", ""))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let panel = Served::new(&files);
    let page = panel.page("/?q=d");
    assert_eq!(lane(&page, "done").len(), 20);
    assert!(page.contains("href=\"/?q=d&#38;done=40\">Show 20 more"), "{page}");
    let page = panel.page("/?q=d&done=40");
    assert_eq!(lane(&page, "done").len(), 40);
    assert!(page.contains("Show 5 more"));
    assert!(!panel.page("/?q=d&done=60").contains("more</a>"));
}

#[test]
fn files_that_are_no_tickets_are_named_with_why() {
    let panel = Served::new(&[
        ("bare.md", "no frontmatter\n"),
        ("a.md", &ticket("one", "deps: [b]\n")),
        ("b.md", &ticket("two", "deps: [a]\n")),
        ("c.md", &ticket("twin", "")),
        ("c.done.md", &ticket("twin", "")),
    ]);
    let page = panel.page("/");
    let odd = between(&page, "<section class=\"odd\"", "</section>").first().unwrap().clone();
    for words in ["bare.md", "has no frontmatter", "c.md", "same stem", "wait for each other"] {
        assert!(odd.contains(words), "{words}: {odd}");
    }
    assert!(panel.get("/ticket/bare").body.contains("has no frontmatter"));
}

#[test]
fn a_change_is_told_at_once() {
    let panel = served_six();
    let version = |page: &str| between(page, "data-version=\"", "\"")[0].clone();
    let before = version(&panel.page("/"));
    panel.write("open.md", &ticket("Another title", ""));
    wait_for("a new version", || version(&panel.page("/")) != before);
}

#[test]
fn hostile_text_stays_text() {
    let bad = "<script>alert(1)</script><img src=x onerror=alert(1)>\" onfocus=\"alert(1) ' &amp; \u{202e}txt";
    let text = format!(
        "---\ntitle: {bad}\nkind: {bad}\nowner: {bad}\nsession_id: <b>\npriority: <i>\n---\n{bad}\n</textarea>\n"
    );
    let name = "<b>'\"&#x.md";
    let panel = Served::new(&[(name, &text), ("x.wip.md", &text), ("odd<u>.md", "no")]);
    for path in ["/", "/ticket/%3Cb%3E%27%22%26%23x", "/ticket/%3Cb%3E%27%22%26%23x/edit", "/ticket/x", "/new?from=x"] {
        let page = panel.page(path);
        for tag in ["<script>alert", "<img", "<b>'", "<i>", "<u>", "</textarea>\n</textarea>", "\" onfocus"] {
            let own = page.replace("<i></i>", "");
            assert!(!own.contains(tag), "{path}: {tag}");
        }
    }
}

#[test]
fn a_page_says_which_queue_it_draws_and_counts_as_people_do() {
    let panel = Served::new(&[
        ("once.md", &ticket("Came back", "attempts: 1\n")),
        ("twice.md", &ticket("Came back again", "attempts: 2\n")),
    ]);
    let folder = panel.queue().canonicalize().unwrap();
    let page = panel.page("/");
    assert!(page.contains(&format!("<code><bdi>{}</bdi></code>", folder.display())), "{page}");
    assert!(panel.page("/ticket/once").contains("<dd>1 time</dd>"));
    assert!(panel.page("/ticket/twice").contains("<dd>2 times</dd>"));
    let gone = panel.get("/ticket/nope").body;
    assert!(gone.contains("There is no ticket nope.") && !gone.contains("any more"), "{gone}");
}

#[test]
fn tickets_that_no_template_is_for_are_named_below_the_lanes() {
    const CONTRACT: &str = "requires: [{as: w, capability: c}]\nsteps: [{id: s, uses: w, run: ['true']}]\n";
    let files = [("a.md", &*ticket("a", "")), ("b.md", &ticket("b", "kind: work\n"))];
    assert!(!Served::new(&files).page("/").contains("Without a template"), "nobody has said which there are");
    let panel = Served::new(&[&files[..], &[("templates/work.yaml", CONTRACT)]].concat());
    let page = panel.page("/");
    let told = &between(&page, "<section class=\"odd\"", "</section>")[0];
    assert!(told.contains("a.md") && told.contains("default.yaml") && !told.contains("b.md"), "{told}");
    std::fs::write(panel.place.path().join("templates/default.yaml"), CONTRACT).unwrap();
    assert!(!panel.page("/").contains("Without a template"), "as they are now");
}
