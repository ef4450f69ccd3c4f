use super::*;

/// `1 title: a=label b=label`, one for each group.
fn shown(question: &str) -> Vec<String> {
    let group = |it: Group| {
        let options: Vec<String> = it.options.iter().map(|it| format!("{}={}", it.letter, it.label)).collect();
        format!("{} {}: {}", it.number, it.title, options.join(" "))
    };
    parse(question).into_iter().map(group).collect()
}

#[test]
fn options_stand_in_groups() {
    for (question, groups) in [
        ("Left or right?", &[][..]),
        ("- (a) left\n- (b) right", &["1 : a=left b=right"]),
        ("Which?\n\n* (A) left\n+ (b)right\n1. (c)  straight \n2) (d)", &["1 : a=left b=right c=straight d="]),
        // The letter returns to a.
        ("- (a) x\n- (b) y\n- (a) z\n- (b) w", &["1 : a=x b=y", "2 : a=z b=w"]),
        ("- (b) x\n- (a) y", &["1 : b=x a=y"]),
        ("- (a) x\n- (b) y\n- (b) z", &["1 : a=x b=y", "2 : b=z"]),
        // A heading names the next group, and only that one.
        (
            "### Colour\n- (a) red\n### Size \ntext\n- (b) big\n- (a) small",
            &["1 Colour: a=red", "2 Size: b=big a=small"],
        ),
        ("### Colour\n- (a) red\n- (a) round", &["1 Colour: a=red", "2 : a=round"]),
        ("### Nothing\n### Colour\n- (a) red\n### Nothing", &["1 Colour: a=red"]),
        ("#### deeper\n## higher\n- (a) red", &["1 : a=red"]),
        // Nested, spread out, with carriage returns.
        ("  - (a) in\r\n\r\n\t- (b) deeper\r\n", &["1 : a=in b=deeper"]),
        // Nothing of these is an option.
        ("(a) no list\n- a) x\n- (ab) x\n- (1) x\n- [ ] (a) x\n-(a) x\n- text (a)\n- (가) x\n- (\n-\n1 (a) x", &[]),
        ("```\n- (a) code\n```\n~~~\n### t\n- (b) code", &[]),
    ] {
        assert_eq!(shown(question), groups, "{question}");
    }
}

#[test]
fn a_label_has_at_most_sixty_characters_whatever_their_bytes() {
    for (label, kept) in [
        ("가".repeat(60), "가".repeat(60)),
        ("가".repeat(61), format!("{}…", "가".repeat(59))),
        (format!("{} {}", "x".repeat(58), "y".repeat(9)), format!("{}…", "x".repeat(58))),
    ] {
        assert_eq!(parse(&format!("- (a) {label}"))[0].options[0].label, kept, "{label}");
    }
}

#[test]
fn what_was_picked_becomes_one_line_a_group() {
    let groups = parse("- (a) x\n- (b) y\n- (c) z\n- (a) v\n- (b) w\n- (a) u");
    for (picked, answer) in [
        (&[(1, "b", "")][..], Ok("1: (b)")),
        (&[(2, "ba", " in \n this order\r\n"), (1, "cab", "")], Ok("1: (a) (b) (c)\n2: (a) (b) in this order")),
        (&[(1, "", ""), (3, "", "neither")], Ok("3: neither")),
        (&[], Err("nothing is chosen")),
        (&[(1, "", ""), (2, "", " \n")], Err("nothing is chosen")),
        (&[(1, "a", ""), (4, "a", "")], Err("no group 4: the question has groups 1 to 3")),
        (&[(0, "a", "")], Err("no group 0")),
        (&[(2, "c", "")], Err("group 2 has no option (c): it has (a) (b)")),
    ] {
        let picks = picked.iter().map(|(number, letters, note)| {
            (*number, Picked { letters: letters.chars().collect(), note: (*note).to_owned() })
        });
        let composed = compose(&groups, &picks.collect());
        match answer {
            Ok(text) => assert_eq!(composed.as_deref(), Ok(text), "{picked:?}"),
            Err(says) => {
                let said = composed.unwrap_err().to_string();
                assert!(said.contains(says), "{picked:?}: {said}");
            }
        }
    }
    let none = BTreeMap::from([(1, Picked { letters: BTreeSet::from(['a']), note: String::new() })]);
    assert!(compose(&[], &none).unwrap_err().to_string().contains("no options to choose from"));
    assert!(
        compose(&groups[..1], &BTreeMap::from([(2, Picked::default())])).unwrap_err().to_string().contains("one group")
    );
}
