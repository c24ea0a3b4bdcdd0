//! Whether sealed rounds fit messages and memory, before anything is trained.

use federation::{ModelFailure, samples_at_once};
use protocol::Plan;
use protocol::message::sealed::{MAX_COEFFICIENT_REQUESTS, MAX_SEALED, MOST_WIDTH, block_length};

use super::host_loss::Sources;

/// What the host keeps of an uploaded block: as it came, and as it is multiplied.
const BLOCK_BYTES: u64 = 153_668 + 2 * 3 * 8192 * 8;
/// Rows that are computed at a time, and what becomes of them.
const ROWS_BYTES: u64 = 2 * (1 << 24) * 8;

/// Refuses rounds that no message or memory has room for.
pub(super) fn check_products(
    model: &estimator::HostModel,
    sources: &Sources,
    plan: &Plan,
    available: Option<u64>,
) -> Result<(), ModelFailure> {
    let Some(sealing) = plan.sealing else { return Ok(()) };
    let wrong = |problem: String| Err(ModelFailure(format!("sealed rounds: {problem}")));
    let guests = model.guests().count();
    if guests > MAX_COEFFICIENT_REQUESTS {
        return wrong(format!(
            "found {guests} guests, expected at most {MAX_COEFFICIENT_REQUESTS}"
        ));
    }
    for (party, layout) in &sources.layouts {
        let entries = layout.len();
        if entries > MOST_WIDTH {
            return wrong(format!(
                "found {entries} measurements of `{party}` in a step, expected at most {MOST_WIDTH}; measure fewer links, \
                 or queues or speeds alone"
            ));
        }
    }
    let terms = terms(model, sources).max().unwrap_or(0);
    for (guest, width) in model.guests() {
        if samples_at_once(&sealing, 1, width, terms) == 0 {
            let most =
                (1..terms).take_while(|terms| samples_at_once(&sealing, 1, width, *terms) > 0);
            let most = most.last().unwrap_or(0);
            return wrong(format!(
                "each of the {width} numbers of `{guest}`'s embedding depends on {terms} measurements, of which messages of \
                 {MAX_SEALED} bytes have room for {most}; choose a head without message passing (head units below 32), or measure \
                 fewer links"
            ));
        }
    }
    let needed = |batch: u32| host_memory(model, sources, plan, batch);
    match available {
        Some(available) if needed(plan.batch) > available => {
            let fits = (1..plan.batch / plan.segment).rev().map(|segments| segments * plan.segment);
            let fits = fits.into_iter().find(|batch| needed(*batch) <= available);
            let advice = match fits {
                Some(batch) => format!("a batch of {batch} samples fits (`--batch`)"),
                None => "no batch fits: choose fewer links, guests or head units".into(),
            };
            let [found, expected] = [needed(plan.batch), available].map(|bytes| bytes >> 20);
            wrong(format!(
                "found {found} MiB that a batch of {} samples takes at the host, expected at most {expected} MiB, which are \
                 free; {advice}",
                plan.batch
            ))
        }
        _ => Ok(()),
    }
}

/// How many measurements of each party a number of an embedding depends on.
fn terms<'a>(
    model: &'a estimator::HostModel,
    sources: &'a Sources,
) -> impl Iterator<Item = usize> + 'a {
    sources.layouts.values().map(|layout| match model.is_by_link() {
        true => layout.most_of_a_link(),
        false => layout.len(),
    })
}

/// About as many bytes as an exchange of so many samples takes at the host.
fn host_memory(model: &estimator::HostModel, sources: &Sources, plan: &Plan, batch: u32) -> u64 {
    let samples = u64::from(batch);
    let entries: usize = sources.layouts.values().map(|layout| layout.len()).sum();
    let gradients = model.gradient_bytes(batch as usize, entries);
    let terms: usize = terms(model, sources).sum();
    let widths: usize = model.guests().map(|(_, width)| width).sum();
    // D as numbers of 8 bytes; of a part of it, ciphertexts.
    let coefficients = samples.saturating_mul(widths as u64).saturating_mul(terms as u64) * 8;
    let messages = (model.guests().count() as u64).pow(2) * MAX_SEALED as u64;
    let blocks = sources.layouts.values().map(|layout| {
        let length = block_length(plan.segment, layout.len());
        samples.div_ceil(length.max(1) as u64)
    });
    let blocks = blocks.sum::<u64>() * BLOCK_BYTES;
    let all = [gradients, coefficients, messages.min(coefficients * 16), blocks, ROWS_BYTES];
    all.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use estimator::model::{HostModel, HostShape, Sizes};
    use estimator::{Architecture, EmbeddingShape, GuestSlot, Recipe};
    use protocol::{LocalUpdates, MeasurementKind, MeasurementLayout, PartyId, Sealing};
    use traffic::{LinkId, MeasurementEntry, Quantity};

    use super::*;
    use crate::learner::{optimiser_settings, update_rule};

    fn plan() -> Plan {
        Plan {
            seed: 1,
            batch: 128,
            epochs: 1,
            exchanges: 1,
            optimiser: optimiser_settings(&Recipe::of(Architecture::Link)),
            local: LocalUpdates::default(),
            segment: 4,
            measured: [MeasurementKind::Queues, MeasurementKind::Speeds].into(),
            shares: None,
            sealing: Some(Sealing::lattice()),
        }
    }

    fn model(sizes: Sizes) -> HostModel {
        let (name, embedding) = ("fleet".to_owned(), EmbeddingShape::PerLink(4));
        let shape = HostShape {
            architecture: Architecture::Link,
            shared: 3,
            channels: 2,
            slots: vec![GuestSlot { name, embedding, direct: true }],
            party_dropout: 0.0,
            sizes,
        };
        let network = traffic::corridor().expect("the corridor");
        HostModel::new(&shape, &network, 1, update_rule(&plan())).expect("a model")
    }

    /// Density and speed of so many links.
    fn sources(links: u32) -> Sources {
        let of = |quantity| {
            (0..links).map(move |link| MeasurementEntry { link: LinkId(link), quantity })
        };
        let kinds = BTreeMap::from([
            (MeasurementKind::Queues, of(Quantity::Density).collect()),
            (MeasurementKind::Speeds, of(Quantity::Speed).collect()),
        ]);
        let layout = MeasurementLayout::new(kinds).expect("a layout");
        let layouts = [(PartyId::new("fleet").expect("a name"), layout)].into();
        Sources { own: BTreeMap::new(), layouts }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_fits() {
        let (model, few, plan) = (model(Sizes::default().for_products()), sources(17), plan());
        let check = |sources: &Sources, available| {
            check_products(&model, sources, &plan, available).map_err(|error| error.0)
        };
        assert_eq!(check(&few, None), Ok(()));
        let needed = host_memory(&model, &few, &plan, plan.batch);
        assert_eq!(check(&few, Some(needed)), Ok(()));
        let error = check(&few, Some(needed - 1)).unwrap_err();
        assert!(error.contains("a batch of 124 samples fits"), "{error}");
        let error = check(&few, Some(ROWS_BYTES)).unwrap_err();
        assert!(error.contains("no batch fits: choose fewer links"), "{error}");
        assert_eq!(check(&sources(4096), None), Ok(()));
        let error = check(&sources(4097), None).unwrap_err();
        assert!(
            error.contains("found 8194 measurements of `fleet` in a step, expected at most 8192"),
            "{error}"
        );
    }

    /// With message passing each number of an embedding depends on everything.
    #[test]
    fn numbers_that_depend_on_too_much_are_refused() {
        let (model, plan) = (model(Sizes::default()), plan());
        let check = |links| check_products(&model, &sources(links), &plan, None);
        assert!(check(54).is_ok());
        let error = check(55).unwrap_err().0;
        assert!(
            error.contains("depends on 110 measurements") && error.contains("room for 108"),
            "{error}"
        );
    }
}
