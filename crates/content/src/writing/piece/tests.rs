//! Requests cut into blocks.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn bytes_are_cut_at_blocks_and_zeroes_keep_their_edges() {
    let (pieces, blocks) = of_data(4096 - 512, &Payload::from(vec![1; 4096 + 1024]));
    assert_eq!(blocks, 0..3);
    let parts: Vec<bool> = pieces.iter().map(Piece::is_part).collect();
    assert_eq!(parts, [true, false, true]);

    let (edges, whole, blocks) = of_zeroes(512, 3 * 4096, 4 * 4096);
    assert_eq!((whole, blocks), (1..3, 0..4));
    assert_eq!(edges.iter().map(|edge| edge.block).collect::<Vec<_>>(), [0, 3]);
    let (edges, whole, _) = of_zeroes(4096, 2 * 4096 + 512, 3 * 4096 + 512);
    assert!(edges.is_empty() && whole == (1..4), "the last block ends with its volume");
    let (edges, whole, _) = of_zeroes(512, 1024, 1 << 20);
    assert!(edges.len() == 1 && whole.is_empty(), "both edges are in one block");
}

#[test]
fn a_part_becomes_a_block_with_a_name_and_zeroes_need_none() {
    let (mut pieces, _) = of_data(512, &Payload::from(vec![7; 512]));
    let mut whole = vec![1; 4096];
    pieces[0].complete(&Payload::from(whole.clone()));
    whole[512..1024].fill(7);
    assert_eq!(pieces[0].name(), Some(ContentId::of(&whole)));
    assert!(!pieces[0].is_settled());

    let (mut pieces, _) = of_data(0, &Payload::from(vec![0; 4096]));
    assert_eq!(pieces[0].name(), None);
    assert!(pieces[0].is_settled() && pieces[0].number() == 0);
}
