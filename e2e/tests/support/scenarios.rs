//! Runs many scenarios on one control plane, at the same time, each reported as a test of its own.
//!
//! Cargo's harness would start a control plane for each test: its tests share no runtime, and nothing is dropped at its end. So programs
//! with `harness = false` call [`run`]. It knows the arguments that matter: filters, `--exact`, `--skip FILTER` and `--list`.

use std::pin::Pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use tokio::task::{JoinSet, LocalSet, spawn_local};

/// Longer than all scenarios of a program one after the other, since the wait for a turn counts, too; it only ends what hangs.
const LIMIT: Duration = Duration::from_mins(20);

// One thread runs them all: futures with async closures can't be shown to be Send, and the work is done by other processes.
type Run<C> = fn(Rc<C>) -> Pin<Box<dyn Future<Output = Result<()>>>>;

/// One scenario over a shared context.
pub struct Scenario<C> {
    pub name: &'static str,
    pub run: Run<C>,
}

impl<C> Clone for Scenario<C> {
    fn clone(&self) -> Self {
        Self { name: self.name, run: self.run }
    }
}

/// Names functions `async fn(Rc<Context>) -> Result<()>` as scenarios.
#[macro_export]
macro_rules! scenarios {
    ($($module:ident::{$($name:ident),+ $(,)?}),+ $(,)?) => {
        &[$($($crate::support::scenarios::Scenario {
            name: stringify!($name),
            run: |context| Box::pin($module::$name(context)),
        }),+),+]
    };
}

/// What the scenarios of a program share.
pub trait Context: Sized + 'static {
    /// Starts it.
    fn start() -> impl Future<Output = Result<Self>>;
    /// Ends it in order, after the last scenario.
    fn stop(&mut self) -> impl Future<Output = Result<()>>;
}

/// Runs the scenarios that the command line chooses.
pub fn run<C: Context>(scenarios: &[Scenario<C>]) -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let chosen: Vec<_> = scenarios.iter().filter(|scenario| is_chosen(scenario.name, &arguments)).cloned().collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for scenario in chosen {
            println!("{}: test", scenario.name);
        }
        return ExitCode::SUCCESS;
    }
    println!("running {} of {} scenarios", chosen.len(), scenarios.len());
    if chosen.is_empty() {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let began = Instant::now();
        let context = C::start().await.expect("the control plane starts");
        println!("started in {:.1?}", began.elapsed());
        let context = Rc::new(context);
        let mut failed = run_all(&context, chosen).await;
        // A scenario that was cut off may still hold it; then there is nothing left to say either.
        let mut context = Rc::into_inner(context).expect("all scenarios have ended");
        if let Err(error) = context.stop().await {
            failed.push(format!("the end: {error:#}"));
        }
        println!("finished in {:.1?}, {} failed", began.elapsed(), failed.len());
        // While the context lives: its logs are kept when the thread panics.
        assert!(failed.is_empty(), "{} failed:\n\n{}", failed.len(), failed.join("\n\n"));
    });
    ExitCode::SUCCESS
}

/// The failures' texts.
async fn run_all<C: Context>(context: &Rc<C>, chosen: Vec<Scenario<C>>) -> Vec<String> {
    let mut running = JoinSet::new();
    for Scenario { name, run } in chosen {
        let context = Rc::clone(context);
        running.spawn_local(async move {
            let began = Instant::now();
            // A task of its own, so that a failed assertion is one scenario's failure and has its name.
            let mut task = spawn_local(run(context));
            let ended = tokio::time::timeout(LIMIT, &mut task).await;
            task.abort();
            let result = match ended {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => Err(anyhow!("{panic}")),
                Err(late) => Err(late).with_context(|| format!("not ended after {LIMIT:?}")),
            };
            (name, began.elapsed(), result)
        });
    }
    let mut failed = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (name, took, result) = ended.expect("scenarios' failures are caught");
        println!("test {name} ... {} ({took:.1?})", if result.is_ok() { "ok" } else { "FAILED" });
        if let Err(error) = result {
            failed.push(format!("{name}: {error:#}"));
        }
    }
    failed
}

fn is_chosen(name: &str, arguments: &[String]) -> bool {
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let hits = |filter: &String| if exact { name == filter } else { name.contains(filter.as_str()) };
    let (mut filters, mut skipped) = (Vec::new(), false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--skip" => skipped |= rest.next().is_some_and(hits),
            // Options of the usual harness whose values are no filters.
            "--test-threads" | "--format" | "--color" | "-Z" => drop(rest.next()),
            option if option.starts_with('-') => {}
            _ => filters.push(argument),
        }
    }
    !skipped && (filters.is_empty() || filters.into_iter().any(hits))
}
