//! What must be true of all that has happened.

use anyhow::{Result, ensure};
use e2e::controlplane::SERVICE_ACCOUNT_USER;
use e2e::soak::answers::{Clocks, is_late, may_be_missed};
use e2e::soak::audit::{self, Write};
use e2e::soak::fencing;
use e2e::soak::schedule::Who;

use crate::footprint::Footprint;
use crate::world::World;

/// Shown of each kind.
const SHOWN: usize = 20;

impl World {
    /// The leader's connections go to the API server that never ends, the other's to the one that does.
    pub(crate) async fn spare_leader(&mut self) -> Result<()> {
        for (who, upstream) in [(Who::Leader, 0), (Who::Standby, 1)] {
            let Some(replica) = self.replicas.find(who).filter(|replica| replica.upstream() != upstream) else { continue };
            replica.move_to(&self.side.plane, upstream).await?;
        }
        Ok(())
    }

    /// Fails with everything that must never be and was, from the beginning on.
    pub(crate) async fn judge(&self) -> Result<()> {
        let (lives, clocks) = (self.replicas.lives(), Clocks::now());
        let writes = self.audited().await?;
        let ours = writes.iter().filter(|write| write.user == SERVICE_ACCOUNT_USER).count();
        let faulty = lives.iter().flat_map(|life| &life.requests).filter(|request| !request.faults.is_empty()).count();
        // Who does not know whether a write has worked sends it again, or reads and writes what it finds once more, as upstream does.
        // What was sent again comes twice if the first of both was only late.
        let may_repeat = |first: &Write, second: &Write| {
            first.user == SERVICE_ACCOUNT_USER && (may_be_missed(first, &lives, clocks) || is_late(second, first, &lives, clocks))
        };
        let needless = audit::needless(&writes, SERVICE_ACCOUNT_USER);
        let twice = audit::twice(&writes, SERVICE_ACCOUNT_USER);
        println!(
            "  so far {ours} writes of ours by {} processes, {} repeated changes, {} repeated deletions; {faulty} requests met a fault",
            lives.len(),
            needless.len(),
            twice.len()
        );
        let told = |first: Option<&Write>, second: &Write| {
            format!("{second}\n    after {}", first.map_or_else(|| "nobody".to_owned(), ToString::to_string))
        };
        let needless = needless.into_iter().filter(|(first, second)| !first.is_some_and(|first| may_repeat(first, second)));
        let needless: Vec<_> = needless.map(|(first, second)| told(first, second)).collect();
        let twice: Vec<_> = twice
            .into_iter()
            .filter(|(first, second)| !may_repeat(first, second))
            .map(|(first, second)| told(Some(first), second))
            .collect();
        let impossible = audit::impossible(&writes, SERVICE_ACCOUNT_USER).into_iter().map(ToString::to_string).collect();
        let mut wrong = Vec::new();
        for (what, found) in [
            ("what must never be", self.side.cache.violations()?),
            ("writes without the lease", fencing::unfenced(&lives)),
            ("writes that changed nothing", needless),
            ("deletions of what had been deleted", twice),
            ("writes that no server takes", impossible),
        ] {
            if !found.is_empty() {
                wrong.push(format!("{what}, {}:\n{}", found.len(), found[..found.len().min(SHOWN)].join("\n")));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
        Ok(())
    }
}

/// Fails if a process has grown between two moments at which there was nothing to do.
pub(crate) fn compare(measured: &[Vec<(String, Footprint)>]) -> Result<()> {
    let [.., last] = measured else { return Ok(()) };
    for (name, now) in last {
        println!("  {name} at rest: {now}");
    }
    let [first, .., last] = measured else { return Ok(()) };
    let pairs =
        last.iter().filter_map(|(name, now)| Some((name, first.iter().find(|(known, _)| known == name).map(|(_, then)| then)?, now)));
    let mut compared = 0;
    for (name, then, now) in pairs {
        now.is_flat_since(then).map_err(|error| error.context(format!("{name}, then {then}, now {now}")))?;
        compared += 1;
    }
    ensure!(compared > 0, "no process has lived through the round");
    Ok(())
}
