//! What a guest contributes to the gradient of an embedding, another guest's or its own: products of its values with
//! coefficients that it cannot read, masked for the recipient.

use protocol::message::sealed::{
    CoefficientEntries, Fingerprint, MAX_COEFFICIENT_REQUESTS, Sealed,
};
use protocol::message::{Purpose, ToHost};
use protocol::party::PartyId;

use super::GuestContext;
use super::encryption::EncryptionState;
use super::training::Training;
use crate::error::PartyError;
use crate::model::GuestModel;
use crate::store::Store;

/// What a query or a request is recognised by: they are large, and need not be kept. They begin with random bytes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageHead([u8; HEAD]);

const HEAD: usize = 64;

impl MessageHead {
    pub(super) fn of(message: &Sealed) -> Self {
        let mut head = [0; HEAD];
        head.iter_mut().zip(message.as_slice()).for_each(|(to, from)| *to = *from);
        Self(head)
    }
}

/// Asks for products with the encrypted coefficients of a gradient.
pub(super) struct ShareRequest {
    /// Whose gradient it is.
    pub recipient: PartyId,
    /// Its key, if it is another guest.
    pub key: Option<Sealed>,
    pub entries: CoefficientEntries,
    pub coefficients: Sealed,
}

impl<M: GuestModel> Training<M> {
    /// Answers with masked products; the same request with the same bytes.
    pub(super) fn encrypted_coefficients<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        request: ShareRequest,
    ) -> Result<(), PartyError> {
        let ShareRequest { recipient, key, entries, coefficients } = request;
        let (host, own) = (context.settings.host.clone(), context.settings.party.clone());
        let now = context.host.now();
        let (run, Some(open)) = (&mut self.run, &mut self.open) else { return Ok(()) };
        let exchange = open.exchange;
        let wrong = |what: String| PartyError::misbehaved(&host, what);
        if open.purpose != Purpose::Train || run.plan().seals(open.purpose).is_none() {
            let round = exchange.round;
            return Err(wrong(format!("it sent coefficients in round {round}, which has none")));
        }
        if recipient == host || (recipient == own) != key.is_none() {
            let what = format!("it sent coefficients for `{recipient}`, which is no other guest");
            return Err(wrong(what));
        }
        let head = MessageHead::of(&coefficients);
        let answered = &open.queries.coefficients;
        if answered.get(&recipient) == Some(&head) {
            return self.repeat_answers(context);
        }
        if open.queries.is_superseded(&head) {
            return Ok(());
        }
        if answered.len() >= MAX_COEFFICIENT_REQUESTS && !answered.contains_key(&recipient) {
            return Err(wrong(format!("it asked for more than {MAX_COEFFICIENT_REQUESTS} guests")));
        }
        let data = run.layout.len();
        let refused = |error| wrong(format!("its coefficients: {error}"));
        let size = run.encryption()?.products.coefficients_size(coefficients.as_slice());
        let size = size.map_err(refused)?;
        let numbers = entries.as_slice().len() / size.terms;
        let count = size.products / numbers.max(1);
        let (first, all) = (entries.first(), open.samples().len());
        let whole = numbers * size.terms == entries.as_slice().len()
            && size.products == count * numbers
            && first.saturating_add(count) <= all;
        if !whole {
            let found = format!("{} products of {} values", size.products, size.terms);
            let rest = all.saturating_sub(first);
            let expected = format!("{numbers} for each of {rest} samples at most");
            return Err(wrong(format!("its coefficients: found {found}, expected {expected}")));
        }
        // What they are charged to: the samples that they are of, and no others.
        let samples = open.samples()[first..first + count].to_vec();
        if let Some(found) = entries.as_slice().iter().find(|entry| **entry as usize >= data) {
            let what = format!("its coefficients: found entry {found}, expected less than {data}");
            return Err(wrong(what));
        }
        // Its own gradient, too: a host that encrypts no whole numbers reads something of each product.
        let values = size.terms;
        let budget = self.budget(context, &samples);
        budget.check(size.products, values, data)?;
        let (run, Some(open)) = (&mut self.run, &mut self.open) else { return Ok(()) };
        let (_, levels) = run.levels(&samples)?;
        let levels = levels
            .chunks_exact(data)
            .flat_map(|sample| entries.as_slice().iter().map(|entry| sample[*entry as usize]));
        let levels: Vec<i32> = levels.collect();
        let EncryptionState { products, key: own_key, .. } = run.encryption()?;
        let recipient_key = key.as_ref().map(Sealed::as_slice);
        let masked = products.multiply_masked(coefficients.as_slice(), &levels, recipient_key);
        let products = Sealed::new(masked.map_err(refused)?).map_err(PartyError::misuse)?;
        let key = key.as_ref().map_or(*own_key, Fingerprint::of);
        let size = [size.products as u32, values as u32];
        let message =
            ToHost::MaskedProducts { exchange, recipient: recipient.clone(), key, size, products };
        open.answered = now;
        // If the host asks anew because another guest came back, only the new answer counts.
        open.answers.retain(|answer| {
            !matches!(answer, ToHost::MaskedProducts { recipient: its, .. } if *its == recipient)
        });
        open.answers.push(message.clone());
        let before = open.queries.coefficients.insert(recipient, head);
        before.into_iter().for_each(|head| open.queries.supersede(head));
        self.say_products(context, message, &samples)
    }
}
