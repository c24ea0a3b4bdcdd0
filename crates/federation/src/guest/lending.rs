//! What a guest contributes to the gradient of an embedding, another guest's or its own: products of its values with
//! coefficients that it cannot read, masked for the recipient.

use protocol::message::sealed::{
    CoefficientEntries, Fingerprint, MAX_COEFFICIENT_REQUESTS, Sealed,
};
use protocol::message::{Exchange, Purpose, ToHost};
use protocol::party::{Now, PartyId};

use super::sealing::EncryptionState;
use super::{Guest, Open, ToHostOutbox};
use crate::error::PartyError;
use crate::model::GuestModel;
use crate::store::Store;

/// What a query or coefficients is known again by: they are large, and need not be kept. They begin with random bytes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageHead([u8; HEAD]);

const HEAD: usize = 64;
/// The most queries and coefficient_requests of one exchange that others have taken the place of.
const MOST_SUPERSEDED: usize = 4096;

impl MessageHead {
    pub fn of(message: &Sealed) -> Self {
        let mut head = [0; HEAD];
        head.iter_mut().zip(message.as_slice()).for_each(|(to, from)| *to = *from);
        Self(head)
    }
}

impl Open {
    /// Whether something else was asked since.
    pub(super) fn is_superseded(&self, head: &MessageHead) -> bool {
        self.superseded.contains(head)
    }

    /// Remembers what something else has taken the place of.
    pub(super) fn supersede(&mut self, head: MessageHead) {
        if self.superseded.len() < MOST_SUPERSEDED {
            self.superseded.insert(head);
        }
    }
}

/// Asks for products with the encrypted coefficients of a gradient.
pub(super) struct ShareRequest<'a> {
    /// Whose gradient it is.
    pub recipient: PartyId,
    /// Its key, if it is another guest.
    pub key: Option<&'a Sealed>,
    pub entries: &'a CoefficientEntries,
    pub coefficients: &'a Sealed,
}

impl<M: GuestModel, S: Store> Guest<M, S> {
    /// Answers with masked products; the same request with the same bytes.
    pub(super) fn encrypted_coefficients(
        &mut self,
        now: Now,
        exchange: Exchange,
        ShareRequest { recipient, key, entries, coefficients }: ShareRequest<'_>,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let (host, own) = (self.settings.host.clone(), self.settings.party.clone());
        let budget = self.budget();
        let Some(running) = self.current(exchange) else { return Ok(()) };
        let Some(open) = running.open.as_ref().filter(|open| open.exchange == exchange) else {
            return Ok(());
        };
        let wrong = |what: String| PartyError::misbehaved(&host, what);
        if open.purpose != Purpose::Train || running.plan.seals(open.purpose).is_none() {
            let round = exchange.round;
            return Err(wrong(format!("it sent coefficients in round {round}, which has none")));
        }
        if recipient == host || (recipient == own) != key.is_none() {
            return Err(wrong(format!(
                "it sent coefficients for `{recipient}`, which is no other guest"
            )));
        }
        let head = MessageHead::of(coefficients);
        if open.coefficient_requests.get(&recipient) == Some(&head) {
            return self.answer_again(now, out);
        }
        if open.is_superseded(&head) {
            return Ok(());
        }
        if open.coefficient_requests.len() >= MAX_COEFFICIENT_REQUESTS
            && !open.coefficient_requests.contains_key(&recipient)
        {
            return Err(wrong(format!("it asked for more than {MAX_COEFFICIENT_REQUESTS} guests")));
        }
        let samples = open.batch.samples().to_vec();
        let data = running.asked.len();
        let refused = |error| wrong(format!("its coefficients: {error}"));
        let size = running
            .encryption()?
            .products
            .coefficients_size(coefficients.as_slice())
            .map_err(refused)?;
        let numbers = entries.as_slice().len() / size.terms;
        if numbers * size.terms != entries.as_slice().len()
            || size.products != samples.len() * numbers
        {
            let found = format!("{} products of {} values", size.products, size.terms);
            let expected = format!("{} for each of {} samples", numbers, samples.len());
            return Err(wrong(format!("its coefficients: found {found}, expected {expected}")));
        }
        if let Some(found) = entries.as_slice().iter().find(|entry| **entry as usize >= data) {
            return Err(wrong(format!(
                "its coefficients: found entry {found}, expected less than {data}"
            )));
        }
        // Nobody else learns its contribution to its own gradient.
        let values = if recipient == own { 0 } else { size.terms };
        budget.check(size.products, values, data)?;
        let (_, levels) = running.levels(&samples)?;
        let levels = levels
            .chunks_exact(data)
            .flat_map(|sample| entries.as_slice().iter().map(|entry| sample[*entry as usize]));
        let levels: Vec<i32> = levels.collect();
        let EncryptionState { products, key: own_key, .. } = running.encryption()?;
        let masked =
            products.multiply_masked(coefficients.as_slice(), &levels, key.map(Sealed::as_slice));
        let masked = Sealed::new(masked.map_err(refused)?).map_err(PartyError::misuse)?;
        let key = key.map_or(*own_key, Fingerprint::of);
        let size = [size.products as u32, values as u32];
        let message = ToHost::MaskedProducts {
            exchange,
            recipient: recipient.clone(),
            key,
            size,
            products: masked,
        };
        if let Some(open) = &mut running.open {
            open.answered = now.monotonic;
            let before = |answer: &ToHost| matches!(answer, ToHost::MaskedProducts { recipient: its, .. } if *its == recipient);
            // If the host asks anew because another guest came back, only the new answer counts.
            open.answers.retain(|answer| !before(answer));
            open.answers.push(message.clone());
            let before = open.coefficient_requests.insert(recipient, head);
            before.into_iter().for_each(|head| open.supersede(head));
        }
        self.say_products(now, message, out)
    }
}
