use super::*;
use crate::fixed_point::{Grid, MOST_LEVELS};
use crate::ipfe::{Authorities, MOST_VALUES, most_keys, public_key_request, rows_of_bytes};
use crate::masked_gradient::MagnitudeBound;

/// As in the rounds.
fn agreement(width: usize) -> Agreement {
    let grid = Grid::new(-1.0, 2.0, MOST_LEVELS).expect("a grid");
    Agreement { width, grid, most_rows: 1000, most_blocks: 1 }
}

fn guest(authorities: &mut Authorities, name: &str, agreement: Agreement) -> KeyedGuest {
    let key = authorities.public_key(name, &public_key_request(&agreement)).expect("a key");
    KeyedGuest::new(agreement, &key, &KeySeed::from_os().expect("a seed")).expect("a guest")
}

fn numbers(count: usize, least: f64, most: f64, seed: u64) -> Vec<f64> {
    let mut random = Randomness::insecure_from_seed(seed);
    let number = |_| least + (most - least) * random.below(1 << 20) as f64 / f64::from(1 << 20);
    (0..count).map(number).collect()
}

#[test]
fn the_host_gets_products_of_a_batch_and_no_more_than_half_as_many_as_values() {
    let (width, rows) = (60, 30);
    let mut authorities = Authorities::default();
    let agreement = agreement(width);
    let grid = agreement.grid;
    let mut fleet = guest(&mut authorities, "fleet", agreement);
    let mut host = KeyedHost::new(agreement, &fleet.public_key()).unwrap();
    assert_eq!(host.answered_by(), AnsweredBy::Authority);
    let levels = grid.levels_of(&numbers(width, 0.0, 1.0, 1)).unwrap();
    let block = host.store(&fleet.upload(BlockId(1), &levels).unwrap()).unwrap();
    let values = numbers(rows * width, -1.0, 1.0, 2);
    let question = host.ask(&Matrix { rows, blocks: &[block], values: &values }).unwrap();
    let answer = authorities.keys("fleet", &question).unwrap();
    assert_eq!((authorities.issued("fleet"), most_keys(width)), (rows, rows));
    for (row, found) in values.chunks_exact(width).zip(host.open(&answer).unwrap()) {
        let exact: f64 = row.iter().zip(&levels).map(|(a, k)| a * grid.value(*k)).sum();
        // Weights sum to 2^34/2^14 less half a unit for each value; each is rounded by half a unit at most, of values of up to
        // 2^14 steps.
        let norm: f64 = row.iter().map(|a| a.abs()).sum();
        let unit = norm / f64::from((1 << 20) - width as i32 / 2);
        let most = 0.5 * unit * width as f64 * f64::from(MOST_LEVELS) * grid.step();
        assert!((found - exact).abs() <= most, "{found}, expected {exact} within {most}");
        assert!(most < 1e-4 * norm, "{most} of {norm}");
    }
    // One row more, and the authority refuses.
    let question = host.ask(&Matrix { rows: 1, blocks: &[block], values: &values[1..=width] });
    let error = authorities.keys("fleet", &question.unwrap()).unwrap_err().to_string();
    assert!(error.contains("found 1 new rows beside 30 rows with keys"), "{error}");
}

#[test]
fn only_the_newest_public_key_gets_keys() {
    let (mut authorities, agreement) = (Authorities::default(), agreement(4));
    let asked = |fleet: &mut KeyedGuest| {
        let mut host = KeyedHost::new(agreement, &fleet.public_key()).unwrap();
        let block = host.store(&fleet.upload(BlockId(1), &[1, 2, 3, 4]).unwrap()).unwrap();
        host.ask(&Matrix { rows: 1, blocks: &[block], values: &[1.0, 0.0, 0.5, 0.0] }).unwrap()
    };
    let first = asked(&mut guest(&mut authorities, "fleet", agreement));
    authorities.keys("fleet", &first).unwrap();
    // Another guest's key is another one, and the same question opens nothing of it.
    let other = asked(&mut guest(&mut authorities, "other", agreement));
    authorities.keys("fleet", &first).unwrap();
    for (name, question) in [("other", &first), ("fleet", &other), ("nobody", &first)] {
        let error = authorities.keys(name, question).unwrap_err().to_string();
        assert!(error.contains("found another one, expected the newest one"), "{name}: {error}");
    }
    // What was stored is the same authority, with its count.
    let (state, mut again) = (authorities.state("fleet").unwrap(), Authorities::default());
    again.restore("fleet", &state).unwrap();
    assert_eq!(again.issued("fleet"), 1);
    assert_eq!(again.keys("fleet", &first).unwrap(), authorities.keys("fleet", &first).unwrap());
    for length in 0..state.len() {
        assert!(again.restore("fleet", &state[..length]).is_err(), "{length} bytes");
    }
    let second = asked(&mut guest(&mut authorities, "fleet", agreement));
    assert!(authorities.keys("fleet", &first).is_err());
    assert_eq!(authorities.issued("fleet"), 0);
    authorities.keys("fleet", &second).unwrap();
}

/// A guest gets the gradient of its embedding from all guests' values, and the host sees none of it.
#[test]
fn gradients_are_for_their_guests_alone() {
    let mut authorities = Authorities::default();
    let agreement = agreement(3);
    let grid = agreement.grid;
    let mut fleets = ["a", "b"].map(|name| guest(&mut authorities, name, agreement));
    let keys = [fleets[0].public_key(), fleets[1].public_key()];
    let mut hosts = keys.each_ref().map(|key| KeyedHost::new(agreement, key).unwrap());
    let levels = [[5, -700, 16000], [12, 0, 9]];
    let values = [1.0, -0.5, 2.0];
    let part = Coefficients { terms: 3, values: &values };
    let bound = MagnitudeBound::of(&agreement, &part).unwrap();
    let offsets = [0.25];
    let bound = bound.and(bound).and(MagnitudeBound::of_offsets(&offsets).unwrap());
    let scale = bound.scale().unwrap();
    let mut shares = Vec::new();
    for (at, (host, fleet)) in hosts.iter_mut().zip(&mut fleets).enumerate() {
        let own = at == 0;
        let (request, pending) = host.encrypt_coefficients(&part, scale, own).unwrap();
        assert_eq!(fleet.coefficients_size(&request).unwrap().products, 1);
        let recipient = Some(&keys[0][..]).filter(|_| !own);
        let reply = fleet.multiply_masked(&request, &levels[at], recipient).unwrap();
        shares.push(host.accept_masked(&pending, &reply).unwrap());
    }
    let gradient = hosts[0].mask_gradient(&offsets, scale, &shares).unwrap();
    let found = fleets[0].unmask(&gradient).unwrap();
    let of = |levels: &[i32; 3]| -> f64 {
        values.iter().zip(levels).map(|(d, level)| d * grid.value(*level)).sum()
    };
    let expected = 0.25 + of(&levels[0]) + of(&levels[1]);
    assert!((found[0] - expected).abs() < 1e-6, "{found:?}, expected {expected}");
    // The other one has no mask for it.
    assert!(fleets[1].unmask(&gradient).is_err());
    // It answers no questions.
    assert!(matches!(fleets[0].rows(&[]), Err(SealedError::Unsupported(_))));
    assert!(matches!(fleets[0].answer(&[]), Err(SealedError::Unsupported(_))));
}

#[test]
fn what_is_too_large_or_malformed_is_refused() {
    let mut authorities = Authorities::default();
    let request = |width| public_key_request(&agreement(width));
    let error = authorities.public_key("a", &request(MOST_VALUES + 1)).unwrap_err().to_string();
    assert!(error.contains("values of a block: found 65537, expected 1 to 65536"), "{error}");
    assert!(authorities.public_key("a", &request(0)).is_err());
    let sound = request(2);
    for length in 0..sound.len() {
        assert!(authorities.public_key("a", &sound[..length]).is_err(), "{length} bytes");
    }
    // No grid: a step of 0.
    let mut wrong = sound.clone();
    wrong[16..24].fill(0);
    assert!(authorities.public_key("a", &wrong).is_err());
    authorities.public_key("a", &sound).unwrap();
    let error = authorities.keys("a", &[0; 40]).unwrap_err().to_string();
    assert!(error.starts_with("the peer sent no valid question"), "{error}");
    assert!(KeyedHost::new(agreement(2), &[1, 2, 3]).is_err());
    // As many guests as there may be.
    for number in 1..256 {
        authorities.public_key(&format!("guest-{number}"), &sound).unwrap();
    }
    let error = authorities.public_key("one more", &sound).unwrap_err().to_string();
    assert_eq!(error, "guests with keys: found 257, expected 256 at most");
    authorities.public_key("a", &sound).unwrap();
    // The size of a question is what it was said to be.
    let mut fleet = guest(&mut authorities, "a", agreement(2));
    let mut host = KeyedHost::new(agreement(2), &fleet.public_key()).unwrap();
    host.store(&fleet.upload(BlockId(1), &[1, 2]).unwrap()).unwrap();
    let matrix = Matrix { rows: 3, blocks: &[BlockId(1)], values: &[1.0; 6] };
    let bytes = host.ask(&matrix).unwrap().len();
    assert_eq!((rows_of_bytes(bytes, 2), rows_of_bytes(bytes - 1, 2)), (3, 2));
}

/// Rows and values as a training has them: values far from the middle of the grid, rows with few entries, of one sign, of very
/// different sizes.
#[test]
fn products_of_any_rows_are_found() {
    let width = 120;
    let mut authorities = Authorities::default();
    let agreement = agreement(width);
    let grid = agreement.grid;
    let mut fleet = guest(&mut authorities, "fleet", agreement);
    let mut host = KeyedHost::new(agreement, &fleet.public_key()).unwrap();
    for levels in [vec![-16384; width], vec![16384; width], vec![-5461; width]] {
        let block = host.store(&fleet.upload(BlockId(1), &levels).unwrap()).unwrap();
        let row = |entry: &dyn Fn(usize) -> f64| (0..width).map(entry).collect::<Vec<f64>>();
        let rows = [
            row(&|_| 1.0),
            row(&|_| -3e-7),
            row(&|j| if j == 7 { 2.0 } else { 0.0 }),
            row(&|j| 10f64.powi(-(j as i32 % 9))),
            row(&|j| if j < 60 { 1.0 } else { -1.0 }),
            row(&|j| (j as f64 - 59.5) * 1e4),
        ];
        let question =
            host.ask(&Matrix { rows: rows.len(), blocks: &[block], values: &rows.concat() });
        let answer = authorities.keys("fleet", &question.unwrap()).unwrap();
        for (row, found) in rows.iter().zip(host.open(&answer).unwrap()) {
            let exact: f64 = row.iter().zip(&levels).map(|(a, k)| a * grid.value(*k)).sum();
            let norm: f64 = row.iter().map(|a| a.abs()).sum();
            assert!((found - exact).abs() <= 1e-4 * norm, "{found}, expected {exact}");
        }
    }
}
