//! How much two words look alike, for whoever tells a person what was meant.

/// How many letters to add, drop or change.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let keep = corner + usize::from(from != *to);
            corner = row[j + 1];
            row[j + 1] = keep.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn each_letter_that_is_added_dropped_or_changed_counts() {
        for (a, b, many) in
            [("", "", 0), ("title", "titel", 2), ("priorty", "priority", 1), ("a", "b", 1), ("", "ab", 2)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (many, many), "{a} {b}");
        }
    }
}
