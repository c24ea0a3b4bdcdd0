use traffic::{FleetView, LinkId, MeasurementEntry, Quantity, Step};

use super::*;

fn id(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

fn entry(link: u32, quantity: Quantity) -> MeasurementEntry {
    MeasurementEntry { link: LinkId(link), quantity }
}

fn layout(speeds: &[u32], held_out: &[u32]) -> MeasurementLayout {
    let of = |links: &[u32], quantity| links.iter().map(|&link| entry(link, quantity)).collect();
    let kinds = [
        (MeasurementKind::Speeds, of(speeds, Quantity::Speed)),
        (MeasurementKind::HeldOut, of(held_out, Quantity::Density)),
    ];
    let kinds = kinds
        .into_iter()
        .filter(|(_, entries): &(MeasurementKind, Vec<MeasurementEntry>)| !entries.is_empty());
    MeasurementLayout::new(kinds.collect()).expect("a layout")
}

fn samples(count: i64) -> Vec<Window> {
    (0..count).map(|step| Window { last: Step(step), view: FleetView(1) }).collect()
}

/// What is held out adds up over guests where all tell it, whatever the order of their links; the rest is
/// each guest's own.
#[test]
fn held_out_parts_add_up_and_the_rest_stays_apart() {
    let layouts =
        Layouts::from([(id("a"), layout(&[5], &[1, 2])), (id("b"), layout(&[], &[3, 2, 1]))]);
    let all = entries(&layouts);
    let held_out = [entry(1, Quantity::Density), entry(2, Quantity::Density)];
    assert_eq!(all[HELD_OUT], held_out);
    assert_eq!(all["a"], [entry(5, Quantity::Speed)]);
    assert!(!all.contains_key("b"));

    let a = Measurements::new(
        3,
        vec![9.0, 1.0, 2.0, 8.0, 3.0, 0.0],
        vec![1.0, 2.0, 2.0, 1.0, 4.0, 0.0],
    );
    let b = Measurements::new(3, vec![7.0, 20.0, 10.0, 7.0, 40.0, 30.0], vec![1.0; 6]);
    let mut measured = BTreeMap::from([(id("a"), a.unwrap()), (id("b"), b.unwrap())]);
    let sources = Sources { own: BTreeMap::new(), layouts };
    let gathered = Gathering::of(&sources, &samples(2), &measured).unwrap();
    let batch = gathered.batch();
    assert_eq!(batch["a"].values, [9.0, 8.0]);
    // What one does not tell nobody tells.
    assert_eq!(batch[HELD_OUT].values, [11.0, 22.0, 33.0, 0.0]);
    let weights = batch[HELD_OUT].weights;
    // Variances 1/2 + 1 and 1/4 + 1, to rounding of 32 bits.
    let expected = [1.0 / 1.5, 1.0 / 1.5, 1.0 / 1.25, 0.0f32];
    assert!(weights.iter().zip(expected).all(|(w, e)| (w - e).abs() < 1e-6), "{weights:?}");

    // Without one of them there is no sum, but what the other measures by itself.
    measured.remove(&id("b"));
    let gathered = Gathering::of(&sources, &samples(2), &measured).unwrap();
    assert_eq!(gathered.batch().keys().copied().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn measurements_of_another_layout_are_refused() {
    let sources =
        Sources { own: BTreeMap::new(), layouts: Layouts::from([(id("a"), layout(&[5], &[1]))]) };
    let measured = Measurements::new(3, vec![1.0; 3], vec![1.0; 3]).unwrap();
    let measured = BTreeMap::from([(id("a"), measured)]);
    let error = Gathering::of(&sources, &samples(1), &measured).err().unwrap();
    assert!(error.to_string().contains("found 3 entries of `a`, expected 2"), "{error}");
}
