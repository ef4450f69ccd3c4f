use std::sync::Arc;

use super::*;
use crate::ticket::{Lane, Queue, Status, Unread};

fn document(text: &str) -> Document {
    Document::parse(text.as_bytes().to_vec()).unwrap()
}

fn ticket(name: &str, lane: Lane, text: &str, born: i64) -> Arc<Ticket> {
    let stem = Stem::new(name).unwrap();
    Arc::new(Ticket::new(stem, lane, format!("{name}.md"), Arc::new(document(text)), born))
}

#[test]
fn headings_of_both_languages_are_the_same_sections() {
    for (heading, kind, number) in [
        ("## 질문 1", Kind::Question, Some(1)),
        ("## 질문 12 ", Kind::Question, Some(12)),
        ("## Question 2:", Kind::Question, Some(2)),
        ("## 질문", Kind::Question, None),
        ("## 답변 3", Kind::Answer, Some(3)),
        ("## answer 3", Kind::Answer, Some(3)),
        ("## 블록", Kind::Block, None),
        ("## Block", Kind::Block, None),
        ("## Block diagram", Kind::Other, None),
        ("## Question of taste", Kind::Other, None),
        ("## Goal", Kind::Other, None),
    ] {
        let body = format!("intro\n\n{heading}\n\ntext\n### deeper\nmore\n");
        let found = sections(&body);
        assert_eq!(found.len(), 1, "{heading}");
        assert_eq!(
            (found[0].kind, found[0].number, found[0].text),
            (kind, number, "text\n### deeper\nmore"),
            "{heading}"
        );
    }
    for body in
        ["# 질문 1\n", "### 질문 1\n", " ## 질문 1\n", "```\n## 질문 1\n```\n", "~~~~\n```\n## 질문 1\n", "##질문 1\n"]
    {
        assert_eq!(sections(body), [], "{body}");
    }
    let decomposed: String = {
        use unicode_normalization::UnicodeNormalization;
        "## 질문 1\n".nfd().collect()
    };
    assert_eq!(sections(&decomposed)[0].kind, Kind::Question);
}

#[test]
fn the_last_question_is_the_one_that_offers_options() {
    for (body, many) in [
        ("- (a) no question\n", 0),
        ("## 질문 1\n- (a) x\n- (a) y\n## 질문 2\nFree text\n", 0),
        ("## 질문 1\nFree text\n## Question 2\n### Which\n- (a) x\n- (a) y\n\n## Notes\n- (a) z\n", 2),
    ] {
        assert_eq!(options(body).len(), many, "{body}");
    }
}

#[test]
fn r27_a_block_is_fresh_while_it_is_the_last_section() {
    for (body, fresh) in [
        ("## 블록\nno network\n", true),
        ("## Goal\nx\n## 블록\nno network\n### detail\n", true),
        ("## 블록\nno network\n\n## 질문 1\nwhat now?\n", false),
        ("## 블록\nold\n## 질문 1\n?\n## 블록\nnew\n", true),
        ("## Goal\n블록\n", false),
        ("", false),
    ] {
        assert_eq!(is_freshly_blocked(body), fresh, "{body}");
    }
}

#[test]
fn asking_writes_the_section_and_the_lock_at_once_and_keeps_the_old_deps() {
    let mut it = document("---\r\ntitle: x\r\ndeps:\r\n  - a\r\nsquad: z\r\n---\r\nbody\r\n");
    let (one, two) = (Stem::new("x-answer-1").unwrap(), Stem::new("x-answer-2").unwrap());
    let origin = Origin { run: "q1-2".to_owned(), step: "ok".to_owned(), attempt: 2 };
    let now = Timestamp::from_millis(1_700_000_000_000);
    assert_eq!(ask(&mut it, "Ship?\n## 질문 9\n", Some(&origin), &one, now), Ok(1));
    assert_eq!(Origin::of_last(it.body()), Some(origin));
    assert_eq!(ask(&mut it, "Really?", None, &two, now), Ok(2));
    assert_eq!(Origin::of_last(it.body()), None, "older questions are history");
    assert_eq!(
        String::from_utf8(it.to_bytes()).unwrap(),
        "---\r\ntitle: x\r\ndeps: [a, x-answer-1, x-answer-2]\r\nsquad: z\r\nawaiting: x-answer-2\r\n\
         asked_at: 2023-11-14T22:13:20.000Z\r\n---\r\nbody\r\n\r\n## 질문 1\r\n\r\n\
         <!-- asked by run q1-2 step ok attempt 2 -->\r\n\r\nShip?\r\n### 질문 9\r\n\r\n## 질문 2\r\n\r\nReally?\r\n"
    );
    assert_eq!(without_questions(it.body()).trim(), "body");
    let before = it.clone();
    assert!(ask(&mut it, "?", None, &Stem::new("a\u{2028}b").unwrap(), now).is_err());
    assert_eq!(it, before, "what is refused has changed nothing");
}

#[test]
fn r40_the_answer_that_is_written_unlocks_and_is_paired_with_its_question() {
    let mut text = document("---\ntitle: 'x: y'\n---\nbody\n");
    let (one, two) = (Stem::new("a-answer-1").unwrap(), Stem::new("a-answer-2").unwrap());
    ask(&mut text, "first?", None, &one, Timestamp::default()).unwrap();
    ask(&mut text, "second?", None, &two, Timestamp::default()).unwrap();
    let asking = |text: &Document| ticket("a", Lane::Waiting, &String::from_utf8(text.to_bytes()).unwrap(), 0);
    let it = asking(&text);
    let answers = |stem: &Stem, number, born| {
        let file = answer_file(&it, stem, number, "yes, because\n## 질문 7");
        ticket(stem.as_str(), Lane::Done, &file, born)
    };
    let queue = Queue::new(vec![it.clone(), answers(&one, 1, 5)], vec![]);
    assert_eq!(Status::of(&queue, &it), Status::AnswerWait);
    let thread_of = thread(&queue, &it);
    assert_eq!(thread_of[0].answer, Some((one.clone(), "yes, because\n### 질문 7".to_owned())));
    assert_eq!((thread_of[1].question.as_str(), &thread_of[1].answer), ("second?", &None));
    let queue = Queue::new(vec![it.clone(), answers(&one, 1, 5), answers(&two, 2, 6)], vec![]);
    assert_eq!(Status::of(&queue, &it), Status::Open);
    let answered = queue.find(&one).unwrap();
    assert_eq!((answered.kind.as_str(), answered.title.as_str()), ("answer", "Answer 1 to a: x: y"));
    assert_eq!(answered.req.as_deref(), Some("a"));
    assert_eq!(queue.warnings(answered), []);
}

/// Its ticket asks the next question, and still tells whoever works on it what was said before.
#[test]
fn a_bare_answer_stays_one_when_its_ticket_asks_again() {
    let mut text = document("---\ntitle: t\ndeps: [notes]\n---\nbody\n");
    let (one, two) = (Stem::new("a-answer-1").unwrap(), Stem::new("a-answer-2").unwrap());
    ask(&mut text, "first?", None, &one, Timestamp::default()).unwrap();
    ask(&mut text, "second?", None, &two, Timestamp::default()).unwrap();
    let it = ticket("a", Lane::Waiting, &String::from_utf8(text.to_bytes()).unwrap(), 0);
    let bare = |stem: &str, said: &str| {
        let text = Document::plain_answer(said.as_bytes().to_vec()).unwrap();
        let (name, file) = (Stem::new(stem).unwrap(), format!("{stem}.done.md"));
        let plain = Arc::new(Ticket::new(name.clone(), Lane::Done, file.clone(), Arc::new(text), 5));
        Unread { file, name: Some((name, Lane::Done)), why: "bare".to_owned(), plain: Some(plain) }
    };
    let queue =
        Queue::new(vec![it.clone()], vec![bare("a-answer-1", "red"), bare("notes", "x"), bare("b-answer-1", "x")]);
    let unread: Vec<&str> = queue.unread().iter().map(|it| it.file.as_str()).collect();
    assert_eq!(unread, ["b-answer-1.done.md", "notes.done.md"], "what is no answer stays none");
    let said = |queue: &Queue| thread(queue, &it).into_iter().map(|it| it.answer.map(|it| it.1)).collect::<Vec<_>>();
    assert_eq!(said(&queue), [Some("red".to_owned()), None]);
    let queue = Queue::new(vec![it.clone()], vec![bare("a-answer-2", "blue"), bare("a-answer-1", "red")]);
    assert_eq!(said(&queue), [Some("red".to_owned()), Some("blue".to_owned())]);
}

/// One that a person has written without `kind`, or for a question that is answered late, moves no other one's answer.
#[test]
fn an_answer_belongs_to_the_question_whose_number_it_has() {
    let body = "## 질문 1\na?\n## 질문 2\nb?\n## Question\nc?\n";
    let it = ticket("a", Lane::Waiting, &format!("---\ndeps: [p, q, r]\nawaiting: r\n---\n{body}"), 1);
    let answer = |name, text: &str, born| ticket(name, Lane::Done, text, born);
    let said = |files: Vec<Arc<Ticket>>| {
        let queue = Queue::new([vec![it.clone()], files].concat(), vec![]);
        thread(&queue, &it).into_iter().map(|it| it.answer.map(|it| it.1).unwrap_or_default()).collect::<Vec<_>>()
    };
    let kind = "---\nkind: answer\n---\n";
    let (p, q) = (answer("p", "---\n---\n## 답변 1\nA", 5), answer("q", &format!("{kind}## 답변 2\nB"), 6));
    let r = answer("r", "---\n---\nC", 2);
    assert_eq!(said(vec![p.clone(), q.clone()]), ["", "B", ""], "what is no answer shifts nothing");
    assert_eq!(said(vec![q.clone(), r.clone()]), ["C", "B", ""], "what says no number is the first one's without");
    let p = answer("p", &format!("{kind}## 답변 1\nA"), 9);
    assert_eq!(said(vec![p, q, r]), ["A", "B", "C"], "in whatever order they were written");
}

#[test]
fn an_answer_of_a_person_needs_no_heading() {
    assert_eq!(answer_text("yes\n"), "yes");
    assert_eq!(answer_text("\n## 답변 1\n\nyes\n\n## Notes\nx\n"), "yes");
    assert_eq!(answer_text("## Answer 1\nno\n"), "no");
}

mod whatever_stands_before_it {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ ]{0,4}(`{1,5}|~{1,5})[a-z` ]{0,6}",
            "## (질문|question|답변|블록|other)( [0-9])?",
            Just("<!-- asked by run other step ok attempt 3 -->".to_owned()),
            "- \\([a-c]\\) [a-z]{0,4}",
            "[ a-z#`~\r-]{0,8}",
        ]
    }

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec(line(), 0..8).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn a_question_is_found_again(body in text(), asked in text(), has_origin: bool) {
            let mut document = document(&format!("---\ntitle: t\n---\n{body}"));
            let before = next_number(document.body());
            let origin = Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 2 };
            let origin = has_origin.then_some(origin);
            let stem = Stem::new("q").unwrap();
            ask(&mut document, &asked, origin.as_ref(), &stem, Timestamp::default()).unwrap();
            prop_assert_eq!(Origin::of_last(document.body()), origin);
            prop_assert_eq!(next_number(document.body()), before + 1);
            prop_assert!(!is_freshly_blocked(document.body()));
            let blocked = format!("{}\n## Block\n", document.body());
            prop_assert!(is_freshly_blocked(&blocked));
            // And so is the next one, and what is answered in between.
            ask(&mut document, "again", None, &stem, Timestamp::default()).unwrap();
            prop_assert_eq!(next_number(document.body()), before + 2);
            let asking = ticket("a", Lane::Waiting, &String::from_utf8(document.to_bytes()).unwrap(), 0);
            let answer = answer_file(&asking, &stem, 1, &asked);
            let answer = self::document(&answer);
            prop_assert_eq!(sections(answer.body()).len(), 1);
        }
    }
}

/// Letters are no answer to a form.
#[test]
fn a_question_that_lists_fields_offers_no_options() {
    let body = "## 질문 1\n\nGo?\n\n- (a) yes\n- (b) no\n";
    assert_eq!(options(body).len(), 1);
    let form = format!("{body}\n{FIELDS}\n\n- `go: …` (yes or no)\n");
    assert_eq!(options(&form).len(), 0);
    assert_eq!(fields_of_last(&form), ["- `go: …` (yes or no)"]);
}
