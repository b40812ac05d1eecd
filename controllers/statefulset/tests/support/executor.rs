//! Plans carried out step by step, in the order and with the consequences that the machinery's executor knows.

use model::plan::{Action, MAX_BATCH_SIZE, Mode, OnError, Outcome, Outcomes, Plan, Stage, Step};

/// `send` says what becomes of a step; it is told the number of the batch, whose tasks would be under way at the same time.
///
/// # Errors
/// What `send` ends it all with.
pub fn carry_out<E>(plan: &Plan, mut send: impl FnMut(&Step, usize) -> Result<Outcome, E>) -> Result<Outcomes, E> {
    let mut outcomes = Outcomes::default();
    let (mut is_stopped, mut batch) = (false, 0);
    for stage in &plan.stages {
        let mut of_stage = if is_stopped { Vec::new() } else { run_stage(stage, &mut batch, &mut send)? };
        let failed = stage.steps.iter().zip(&of_stage).any(|(step, outcome)| is_failure(step, outcome));
        is_stopped |= failed && stage.on_error == OnError::StopSync;
        of_stage.resize(stage.steps.len(), Outcome::NotSent);
        outcomes.0.push(of_stage);
    }
    Ok(outcomes)
}

/// The outcomes up to the batch that ends the stage.
fn run_stage<E>(stage: &Stage, batch: &mut usize, send: &mut impl FnMut(&Step, usize) -> Result<Outcome, E>) -> Result<Vec<Outcome>, E> {
    let mut outcomes = Vec::new();
    let mut size = if stage.mode == Mode::AllAtOnce { stage.steps.len() } else { 1 };
    let mut tasks = stage.tasks().peekable();
    while tasks.peek().is_some() {
        *batch += 1;
        let mut batch_failed = false;
        for task in tasks.by_ref().take(size) {
            let mut failed = false;
            for at in 0..task.tries + task.then {
                let step = &stage.steps[outcomes.len()];
                let outcome = if failed && at >= task.tries { Outcome::NotSent } else { send(step, *batch)? };
                failed |= is_failure(step, &outcome);
                outcomes.push(outcome);
            }
            batch_failed |= failed;
        }
        if batch_failed && stage.on_error != OnError::GoOn {
            break;
        }
        if stage.mode == Mode::SlowStart {
            size = (size * 2).min(MAX_BATCH_SIZE);
        }
    }
    Ok(outcomes)
}

fn is_failure(step: &Step, outcome: &Outcome) -> bool {
    match (&step.action, outcome) {
        (_, Outcome::Done { .. }) => false,
        (Action::Create(_), Outcome::Failed(error)) => !error.namespace_terminating,
        (Action::Delete(delete), Outcome::Failed(error)) => !delete.found_gone(error),
        _ => true,
    }
}
