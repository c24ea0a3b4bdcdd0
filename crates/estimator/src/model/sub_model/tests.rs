//! Local updates of one part.

use neural::{Linear, Optimiser};
use traffic::corridor;

use super::*;
use crate::model::architecture::Architecture;
use crate::model::parts::{EmbeddingShape, SubModelKind};
use crate::model::recipe::Recipe;
use crate::model::sizes::Sizes;
use crate::model::test_models::{guest, some};

const NOISE: DropoutRng = DropoutRng { seed: 1, step: 2, first_sample: 0 };

fn rule() -> UpdateRule {
    UpdateRule::of(&Recipe::of(Architecture::Link))
}

fn line(rule: UpdateRule) -> LayerSubModel {
    LayerSubModel::new(Linear::new(1, 3, 2), 4, rule)
}

fn learn(model: &mut dyn SubModel, x: &[f32], dz: &[f32]) {
    let mut z = vec![0.0; dz.len()];
    model.forward(x, &mut z, NOISE).unwrap();
    model.backward(x, dz, NOISE).unwrap();
    model.update(0.01);
}

#[test]
fn every_kind_gives_what_crosses_and_learns() {
    let network = corridor().unwrap();
    let sizes = Sizes { units: 8, embedding: 2, ..Sizes::default() };
    for kind in [SubModelKind::Link, SubModelKind::Stgcn, SubModelKind::Mlp, SubModelKind::Linear] {
        for embedding in
            [EmbeddingShape::PerLink(1), EmbeddingShape::PerLink(3), EmbeddingShape::Whole(9)]
        {
            let channels = if kind == SubModelKind::Stgcn { 2 } else { 27 };
            let shape = GuestShape { sub_model: kind, channels, embedding, ..guest("a", sizes, 0) };
            let model = LayerSubModel::of(&shape, &network, 1, rule());
            if kind == SubModelKind::Link && embedding == EmbeddingShape::Whole(9) {
                let guest = "a".into();
                assert_eq!(model.err(), Some(ModelError::NotPerLink { guest }));
                continue;
            }
            let mut model = model.unwrap();
            assert_eq!(model.output_len(), embedding.len(17), "{kind:?}");
            let (inputs, outputs) = (3 * model.input_len(), 3 * model.output_len());
            let before = model.parameters().to_vec();
            learn(&mut model, &some(inputs, 1), &some(outputs, 2));
            assert_ne!(model.parameters(), before, "{kind:?} {embedding:?}");
        }
    }
}

/// Before training, what crosses first is what the guest saw last.
#[test]
fn the_direct_path_starts_at_the_last_density_and_flow() {
    let network = corridor().unwrap();
    for each in [1, 2, 4] {
        let shape =
            GuestShape { sub_model: SubModelKind::Linear, ..guest("a", Sizes::default(), each) };
        let model = LayerSubModel::of(&shape, &network, 1, rule()).unwrap();
        let x = some(model.input_len(), 1);
        let mut z = vec![0.0; model.output_len()];
        model.infer(&x, &mut z).unwrap();
        for (z, x) in z.chunks_exact(each).zip(x.chunks_exact(27)) {
            assert_eq!(z[..each.min(2)], x[24..24 + each.min(2)]);
        }
    }
}

/// The frozen variant: a second update on the same gradient is a second step of Adam.
#[test]
fn an_update_may_be_repeated_on_the_same_gradient() {
    let rule = UpdateRule { clip: Some(0.5), ..rule() };
    let mut model = line(rule);
    let (x, dz) = (some(12, 1), some(8, 2));
    let mut expected = model.parameters().to_vec();
    learn(&mut model, &x, &dz);
    model.update(0.01);
    let mut gradient = model.block.learner.gradient().to_vec();
    neural::clip_norm(&mut gradient, 0.5);
    let mut adam = neural::Adam::new(expected.len(), rule.decay);
    adam.update(0.01, &mut expected, &gradient);
    adam.update(0.01, &mut expected, &gradient);
    assert_eq!(model.parameters(), expected);
}

/// The proximal term is nothing where the round began, and then holds the weights back: without a
/// gradient of its own, each update leads towards the start.
#[test]
fn the_proximal_term_draws_to_the_start_of_the_round() {
    let rule = UpdateRule { proximal: 1.0, decay: neural::Decay::None, clip: None, average: None };
    let mut model = line(rule);
    let (x, dz) = (some(12, 1), some(8, 2));
    let start = model.parameters().to_vec();
    let mut free = line(UpdateRule { proximal: 0.0, ..rule });
    model.begin_round();
    learn(&mut model, &x, &dz);
    learn(&mut free, &x, &dz);
    assert_eq!(model.parameters(), free.parameters());
    let far = |model: &LayerSubModel| -> f32 {
        model.parameters().iter().zip(&start).map(|(now, then)| (now - then).abs()).sum()
    };
    let away = far(&model);
    for _ in 0..20 {
        learn(&mut model, &x, &[0.0; 8]);
        learn(&mut free, &x, &[0.0; 8]);
    }
    // Adam's mean still moves both on; only one of them is called back.
    assert!(far(&model) < 0.5 * far(&free), "{away} {} {}", far(&model), far(&free));

    // A checkpoint within a round knows where the round began.
    let mut other = line(rule);
    other.load(&model.save()).unwrap();
    learn(&mut model, &x, &dz);
    learn(&mut other, &x, &dz);
    assert_eq!(model.parameters(), other.parameters());
}

#[test]
fn what_is_judged_is_the_average_and_what_is_kept_stays() {
    let mut model = line(UpdateRule { average: Some(0.5), ..rule() });
    let (x, dz) = (some(3, 1), some(2, 2));
    let estimate = |model: &LayerSubModel, best: bool| {
        let mut z = [0.0; 2];
        if best { model.infer_best(&x, &mut z) } else { model.infer(&x, &mut z) }.unwrap();
        z
    };
    let first = estimate(&model, true);
    let mut average = neural::Average::new(model.parameters(), 0.5);
    learn(&mut model, &x, &dz);
    average.update(model.parameters());
    let mut averaged = neural::Learner::new(Linear::new(1, 3, 2), 0, neural::Plan::default());
    averaged.set_parameters(average.weights()).unwrap();
    let mut expected = [0.0; 2];
    averaged.infer(&x, &mut expected);
    assert_eq!(estimate(&model, false), expected);
    assert_eq!(estimate(&model, true), first);
    model.keep_best();
    assert_eq!(model.best(), average.weights());
    learn(&mut model, &x, &dz);
    assert_eq!(estimate(&model, true), expected);
    assert_ne!(estimate(&model, false), expected);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut model = line(rule());
    let mut z = [0.0; 4];
    let refused = |result: Result<(), PassError>| result.err().unwrap().to_string();
    assert_eq!(
        refused(model.forward(&[0.0; 5], &mut z, NOISE)),
        "input: found 5 numbers, expected a multiple of 3"
    );
    assert_eq!(refused(model.infer(&[0.0; 3], &mut z)), "output: found 4 numbers, expected 2");
    // Backward without forward.
    assert_eq!(
        refused(model.backward(&[0.0; 6], &[0.0; 4], NOISE)),
        "input: found 6 numbers, expected 0"
    );
    model.forward(&[0.0; 6], &mut z, NOISE).unwrap();
    assert!(
        refused(model.backward(&[0.0; 6], &[0.0; 2], NOISE))
            .contains("found 2 numbers, expected 4")
    );
    let wild = [0.0, 0.0, f32::INFINITY, 0.0];
    assert!(refused(model.backward(&[0.0; 6], &wild, NOISE)).contains("found inf at place 2"));
}
