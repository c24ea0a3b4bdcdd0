//! What a guest lends to the gradient of another guest's embedding: products that it cannot read, encrypted for the
//! other one.

use super::{Guest, ToHostOutbox};
use crate::error::PartyError;
use crate::message::sealed::{Fingerprint, MOST_LOANS, Sealed};
use crate::message::{Exchange, Purpose, ToHost};
use crate::model::GuestModel;
use crate::party::{Now, PartyId};
use crate::store::Store;

impl<M: GuestModel, S: Store> Guest<M, S> {
    /// Answers a loan; the same one with the same bytes.
    pub(super) fn loan(
        &mut self,
        now: Now,
        exchange: Exchange,
        (to, key, loan): (PartyId, &Sealed, &Sealed),
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
            return Err(wrong(format!("it asked for a loan in round {round}, which has none")));
        }
        if to == own || to == host {
            return Err(wrong(format!("it asked for a loan to `{to}`, which is no other guest")));
        }
        // Loans are large, and need not be kept to be known again.
        let known = Fingerprint::of(loan);
        if open.loans.get(&to) == Some(&known) {
            return self.answer_again(now, out);
        }
        if open.loans.len() >= MOST_LOANS && !open.loans.contains_key(&to) {
            return Err(wrong(format!("it asked for more than {MOST_LOANS} loans")));
        }
        let samples = open.batch.samples().len();
        let data = running.asked.len();
        let sealer = running.sealer()?;
        let refused = |error| wrong(format!("its loan: {error}"));
        let rows = sealer.products.loan_rows(loan.as_slice()).map_err(refused)?;
        if !rows.is_multiple_of(samples) {
            let what =
                format!("its loan: found {rows} rows, expected as many for each of {samples}");
            return Err(wrong(what));
        }
        // Each is a product with the values of one block.
        let values = sealer.agreement.width;
        budget.check(rows, values, data)?;
        let relay = sealer.products.relay(loan.as_slice(), key.as_slice()).map_err(refused)?;
        let relay = Sealed::new(relay).map_err(PartyError::misuse)?;
        let (key, size) = (Fingerprint::of(key), [rows as u32, values as u32]);
        let message = ToHost::Relay { exchange, to: to.clone(), key, size, relay };
        if let Some(open) = &mut running.open {
            open.answered = now.monotonic;
            let before =
                |answer: &ToHost| matches!(answer, ToHost::Relay { to: its, .. } if *its == to);
            // If the host asks anew because another guest came back, only the new answer counts.
            open.answers.retain(|answer| !before(answer));
            open.answers.push(message.clone());
            open.loans.insert(to, known);
        }
        self.say(now, message, out)
    }
}
