//! Whether sealed rounds fit messages and memory, before anything is trained.

use federation::{ModelFailure, samples_at_once};
use protocol::message::sealed::{
    MAX_COEFFICIENT_REQUESTS, MAX_SEALED, MOST_KEYED_WIDTH, MOST_WIDTH, block_length,
};
use protocol::{LocalUpdates, LocalVariant, Plan};
use sealed::ipfe::most_keys;

use super::host_loss::Sources;

/// What the host keeps of an uploaded block: as it came, and as it is multiplied.
const BLOCK_BYTES: u64 = 153_668 + 2 * 3 * 8192 * 8;
/// A value, encrypted for functional encryption.
const POINT_BYTES: u64 = 160;
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
    let failure = |problem: &str| ModelFailure(format!("sealed rounds: {problem}"));
    let wrong = |problem: String| Err(failure(&problem));
    let guests = model.guests().count();
    if guests > MAX_COEFFICIENT_REQUESTS {
        return wrong(format!(
            "found {guests} guests, expected at most {MAX_COEFFICIENT_REQUESTS}"
        ));
    }
    for (party, layout) in &sources.layouts {
        let entries = layout.len();
        if entries > MOST_WIDTH {
            let most = MOST_WIDTH / layout.kinds().count().max(1);
            let alone = match layout.kinds().count() > 1 && entries <= 2 * MOST_WIDTH {
                true => {
                    " speeds or queues alone (fedtse-pi-v or fedtse-pi-k; a host's `pi-v` or `pi-k`), or"
                }
                false => "",
            };
            return wrong(format!(
                "found {entries} measurements of `{party}` in a step, expected at most {MOST_WIDTH}; choose{alone} at most {most} \
                 links for it to measure (`links` of its policy)"
            ));
        }
    }
    if sealing.is_keyed() {
        check_keys(model, sources, plan).map_err(|problem| failure(&problem))?;
    }
    let terms = terms(model, sources).max().unwrap_or(0);
    for (guest, width) in model.guests() {
        if width > sealing.most_rows as usize {
            return wrong(format!(
                "found messages of {} products (`most-rows`), expected room for the {width} numbers of `{guest}`'s embedding",
                sealing.most_rows
            ));
        }
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

/// Updates of an exchange that have products of their own.
pub(super) fn updates_with_products(local: &LocalUpdates) -> usize {
    match local.variant {
        LocalVariant::Recompute => local.of_host() as usize,
        LocalVariant::Frozen => 1,
    }
}

/// Refuses batches whose products an authority issues no keys for: at most half as many rows as the batch has values, and of
/// no more values than it has public keys for.
fn check_keys(model: &estimator::HostModel, sources: &Sources, plan: &Plan) -> Result<(), String> {
    let updates = updates_with_products(&plan.local);
    let (parameters, batch) = (model.parameter_count(), plan.batch as usize);
    // One for each parameter and one for the loss, anew for each update.
    let rows = (parameters + 1) * updates;
    for (party, layout) in &sources.layouts {
        let entries = layout.len().max(1);
        let most = MOST_KEYED_WIDTH / entries / plan.segment as usize * plan.segment as usize;
        let values = batch * entries;
        if values > MOST_KEYED_WIDTH {
            return Err(format!(
                "found {values} measurements of `{party}` in a batch of {batch} samples, expected at most {MOST_KEYED_WIDTH} with \
                 functional encryption (ipfe); choose a batch of at most {most} (`--batch`), or rlwe"
            ));
        }
        if rows > most_keys(values) {
            let least = (2 * rows).div_ceil(entries).next_multiple_of(plan.segment as usize);
            let advice = match least <= most {
                true => format!("a batch of {least} samples or more (`--batch`), "),
                false => String::new(),
            };
            return Err(format!(
                "found {rows} products of an exchange, one for each of {parameters} parameters of the host and one for the loss, \
                 {updates} times, with {values} measurements of `{party}`, expected at most {}: a key authority issues keys for half as \
                 many products as values; choose {advice}fewer head units (`--head-units`), one host update (`--host-updates once`), \
                 or rlwe",
                most_keys(values)
            ));
        }
    }
    Ok(())
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
    let keyed = plan.sealing.is_some_and(|sealing| sealing.is_keyed());
    let blocks = sources.layouts.values().map(|layout| {
        if keyed {
            return samples * layout.len() as u64 * POINT_BYTES;
        }
        let length = block_length(plan.segment, layout.len());
        samples.div_ceil(length.max(1) as u64) * BLOCK_BYTES
    });
    let blocks = blocks.sum::<u64>();
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
            window: 9,
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
        assert!(
            error.contains("choose speeds or queues alone (fedtse-pi-v or fedtse-pi-k"),
            "{error}"
        );
        assert!(
            error.contains("or at most 4096 links for it to measure (`links` of its"),
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
