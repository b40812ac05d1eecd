//! Plays scripts in a namespace, without waiting for what comes of them.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use e2e::differential::script::Nodes;
use e2e::soak::schedule::Play;
use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout_at};

use crate::sides::Side;
use crate::view::View;

/// Between two words of a script: the next one mostly meets what the last has begun.
const PAUSE: std::ops::RangeInclusive<u64> = 100..=2500;

/// Between two looks for pods that are held.
const LOOK: Duration = Duration::from_millis(700);

/// One namespace with its scripts.
pub(crate) struct Player {
    pub(crate) namespace: String,
    pub(crate) view: View,
    play: Play,
}

impl Player {
    pub(crate) async fn new(side: &Side, number: usize, play: &Play) -> Result<Rc<Self>> {
        let prefix = format!("{}-{number}", play.family.prefix());
        let view = View::new(side, &prefix, play.seed).await?;
        Ok(Rc::new(Self { namespace: format!("{prefix}-{}", play.seed), view, play: play.clone() }))
    }

    /// Script after script until then. Answers how many words were said.
    pub(crate) async fn play(self: Rc<Self>, until: Instant) -> usize {
        let mut rng = Rng::with_seed(self.play.seed);
        let mut said = 0;
        for seed in self.play.seed.. {
            for step in self.play.family.script(seed).steps {
                let pause = Duration::from_millis(rng.u64(PAUSE));
                if Instant::now() + pause >= until {
                    return said;
                }
                sleep(pause).await;
                match timeout_at(until, self.view.write(&step.write)).await {
                    // A refusal is an answer: what is there is not always what the script expects.
                    Ok(Ok(_)) => said += 1,
                    Ok(Err(error)) => eprintln!("{}: {error:#}", step.text),
                    Err(_) => return said,
                }
            }
        }
        said
    }

    /// Lets pods that are held go after a while, until it is dropped.
    pub(crate) async fn release(self: Rc<Self>) {
        let mut rng = Rng::with_seed(self.play.seed);
        loop {
            sleep(LOOK).await;
            let held = self.view.work(Nodes::Release).into_iter().filter(|_| rng.u8(..100) < 40).collect();
            if let Err(error) = self.view.do_work(held).await {
                eprintln!("release pods: {error:#}");
            }
        }
    }
}
