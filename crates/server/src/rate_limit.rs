//! Requests and connections of each address: a token bucket that fills at a steady rate.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Addresses that are remembered; the least recently seen one is dropped first.
const MAX_ADDRESSES: usize = 4096;
/// Size of the bucket, in seconds of the rate.
const BURST_S: f64 = 4.0;

/// Limits of each address.
pub(crate) struct RateLimiter {
    per_second: f64,
    connections: usize,
    addresses: Mutex<HashMap<IpAddr, Address>>,
}

struct Address {
    tokens: f64,
    at: Instant,
    connections: usize,
}

/// A connection of an address, until it is dropped.
pub(crate) struct CountedConnection {
    limiter: Arc<RateLimiter>,
    address: IpAddr,
}

impl RateLimiter {
    /// Requests per second and simultaneous connections of each address.
    pub(crate) fn new(per_second: f64, connections: usize) -> Self {
        RateLimiter { per_second, connections, addresses: Mutex::default() }
    }

    /// Counts a request of an address; beyond its rate, the seconds that it should wait.
    pub(crate) fn request(&self, address: IpAddr, now: Instant) -> Result<(), f64> {
        self.with(address, now, |found| {
            if found.tokens >= 1.0 {
                found.tokens -= 1.0;
                return Ok(());
            }
            Err((1.0 - found.tokens) / self.per_second)
        })
    }

    /// Counts a connection of an address; none if it has too many.
    pub(crate) fn connection(
        self: &Arc<Self>,
        address: IpAddr,
        now: Instant,
    ) -> Option<CountedConnection> {
        let max = self.connections;
        let taken = self.with(address, now, |found| {
            let free = found.connections < max;
            found.connections += usize::from(free);
            free
        });
        taken.then(|| CountedConnection { limiter: Arc::clone(self), address: group(address) })
    }

    fn with<T>(&self, address: IpAddr, now: Instant, act: impl FnOnce(&mut Address) -> T) -> T {
        let address = group(address);
        let full = BURST_S * self.per_second;
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= MAX_ADDRESSES && !addresses.contains_key(&address) {
            let idle = addresses.iter().filter(|(_, found)| found.connections == 0);
            let oldest = idle.min_by_key(|(_, found)| found.at).map(|(address, _)| *address);
            oldest.and_then(|oldest| addresses.remove(&oldest));
        }
        let found =
            addresses.entry(address).or_insert(Address { tokens: full, at: now, connections: 0 });
        let passed = now.saturating_duration_since(found.at).as_secs_f64();
        found.tokens = (found.tokens + passed * self.per_second).min(full);
        found.at = found.at.max(now);
        act(found)
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut addresses = self.limiter.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = addresses.get_mut(&self.address) {
            found.connections = found.connections.saturating_sub(1);
        }
    }
}

/// An IPv6 network of 64 bits counts as one address: whoever has one has all of them.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_address_has_its_rate_and_takes_nothing_from_others() {
        let limiter = RateLimiter::new(10.0, 1);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        let taken = (0..100).filter(|_| limiter.request(one, now).is_ok()).count();
        // Four seconds at once.
        assert_eq!(taken, 40);
        assert!(limiter.request(other, now).is_ok());
        let wait = limiter.request(one, now).unwrap_err();
        // One tenth of a second a request; the bucket was exactly empty.
        assert!((wait - 0.1).abs() < 1e-9, "{wait}");
        // In two seconds twenty more; half a request is left over for the rounding of clocks.
        let later = now + Duration::from_millis(2050);
        assert_eq!((0..100).filter(|_| limiter.request(one, later).is_ok()).count(), 20);
    }

    #[test]
    fn connections_are_counted_until_they_end() {
        let limiter = Arc::new(RateLimiter::new(10.0, 2));
        let now = Instant::now();
        // Two addresses of one IPv6 network, which count as one.
        let [one, other] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
        let held = [limiter.connection(one, now), limiter.connection(other, now)];
        assert!(held.iter().all(Option::is_some));
        assert!(limiter.connection(one, now).is_none());
        drop(held);
        assert!(limiter.connection(one, now).is_some());
    }

    #[test]
    fn memory_does_not_grow_with_addresses() {
        let limiter = Arc::new(RateLimiter::new(10.0, 2));
        let now = Instant::now();
        let first = IpAddr::from([10, 0, 0, 0]);
        let _held = limiter.connection(first, now);
        for number in 0..3 * MAX_ADDRESSES as u32 {
            let address = IpAddr::from((0x0b00_0000 + number).to_be_bytes());
            let _ = limiter.request(address, now + Duration::from_secs(u64::from(number)));
        }
        let addresses = limiter.addresses.lock().unwrap();
        assert!(addresses.len() <= MAX_ADDRESSES);
        assert!(addresses.contains_key(&first), "an address with a connection is not forgotten");
    }
}
