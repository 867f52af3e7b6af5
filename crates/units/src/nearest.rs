//! Finds the known word that somebody probably meant: for messages about names that do not exist.

/// The candidate most like `word`, for "did you mean"; upper and lower case are the same.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |c: &str| edit_distance(&word, &c.to_lowercase());
    candidates.map(|c| (distance(c), c)).min().filter(|(d, _)| *d <= 3).map(|(_, c)| c)
}

/// Number of letters that are inserted, left out, replaced or exchanged with their neighbour
/// (optimal string alignment), O(|a|·|b|).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = [vec![0; b.len() + 1], vec![0; b.len() + 1], (0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        rows.rotate_left(1);
        let [before, above, row] = &mut rows;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = above[j] + usize::from(x != y);
            row[j + 1] = substituted.min(row[j] + 1).min(above[j + 1] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
    }
    rows[2][b.len()]
}

#[cfg(test)]
mod tests;
