//! Parts of a scenario as users write them, and the arrivals that follow from them.

use super::Arrivals;
use super::mmpp::{Bursts, Mmpp};
use super::run::BalanceError;
use super::scenario::{Service, Slowing};
use std::str::FromStr;
use thermocline_charts::format::{plain, seconds, share};
use thermocline_policy::balance;
use thermocline_policy::registry::{PolicySpec, balancers};
use thermocline_units::Nanos;

/// Speeds of servers as a user writes them.
#[derive(Debug, Clone)]
pub struct Sites(pub Vec<f64>);

impl FromStr for Sites {
    type Err = String;

    fn from_str(text: &str) -> Result<Sites, String> {
        let wrong = || format!("`{text}` is neither a number of servers nor speeds like 4,1,1");
        if !text.contains(',') {
            let count: u16 = text.trim().parse().map_err(|_| wrong())?;
            return Ok(Sites(vec![1.0; count.into()]));
        }
        let speeds: Result<_, _> = text.split(',').map(|speed| speed.trim().parse()).collect();
        speeds.map(Sites).map_err(|_| wrong())
    }
}

/// A service as a user writes it.
#[derive(Debug, Clone, Copy)]
pub struct Work(pub Service);

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let wrong = || format!("`{text}` is no service; write exp, fixed, pareto:1.5 or bytes");
        match text.split_once(':').unwrap_or((text, "")) {
            ("exp", "") => Ok(Work(Service::Exponential)),
            ("fixed", "") => Ok(Work(Service::Deterministic)),
            ("bytes", "") => Ok(Work(Service::Bytes)),
            ("pareto", shape) => shape.parse().map(Service::Pareto).map(Work).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// Bursts as a user writes them.
#[derive(Debug, Clone, Copy)]
pub struct Burstiness(pub Bursts);

impl FromStr for Burstiness {
    type Err = String;

    fn from_str(text: &str) -> Result<Burstiness, String> {
        let wrong = |what: &str| {
            format!("`{text}`: {what}; write I=313.5,share=0.9,length=750ms, share and length too")
        };
        let (mut index, mut share, mut length) = (None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("no KEY=VALUE"))?;
            let number = || value.trim().parse::<f64>().map_err(|_| wrong("no number"));
            match key.trim() {
                "I" | "i" => index = Some(number()?),
                "share" => share = Some(number()?),
                "length" => {
                    let time: Nanos = value.trim().parse().map_err(|_| wrong("no length"))?;
                    length = Some(time.as_secs_f64());
                }
                _ => return Err(wrong("only I, share and length are known")),
            }
        }
        match (index, share, length) {
            (Some(index), Some(share), Some(length_s)) => {
                Ok(Burstiness(Bursts { index, share, length_s }))
            }
            _ => Err(wrong("one of them is missing")),
        }
    }
}

/// Slow times as a user writes them.
#[derive(Debug, Clone, Copy)]
pub struct SlowTimes(pub Slowing);

impl FromStr for SlowTimes {
    type Err = String;

    fn from_str(text: &str) -> Result<SlowTimes, String> {
        let wrong = |what: &str| format!("`{text}`: {what}; write every=10s,for=3s,to=0.25");
        let (mut every, mut lasting, mut to) = (None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("no KEY=VALUE"))?;
            let time = || value.trim().parse::<Nanos>().map_err(|_| wrong("no length of time"));
            match key.trim() {
                "every" => every = Some(time()?),
                "for" => lasting = Some(time()?),
                "to" => to = Some(value.trim().parse().map_err(|_| wrong("no number"))?),
                _ => return Err(wrong("only every, for and to are known")),
            }
        }
        match (every, lasting, to) {
            (Some(every), Some(lasting), Some(to)) => Ok(SlowTimes(Slowing { every, lasting, to })),
            _ => Err(wrong("one of them is missing")),
        }
    }
}

/// A number of requests as a user writes it.
#[derive(Debug, Clone, Copy)]
pub struct Requests(pub usize);

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Requests, String> {
        let text = text.trim();
        let (number, times) = match text.strip_suffix(['k', 'M']) {
            Some(number) if text.ends_with('k') => (number, 1_000),
            Some(number) => (number, 1_000_000),
            None => (text, 1),
        };
        let number: Option<usize> = number.trim().parse().ok();
        let requests = number.and_then(|number| number.checked_mul(times)).filter(|n| *n > 0);
        requests.map(Requests).ok_or_else(|| format!("`{text}` is no number such as 200k or 1M"))
    }
}

/// Policies when none is named.
const RIVALS: [&str; 9] =
    ["rand", "qlen", "ara", "ara-count", "least", "p2c", "jiq", "li", balance::DEFAULT];

/// The balancers that `words` name, the default one and its rivals when there is none; `all` leaves
/// `ara-opt` out where nobody knows the bursts.
///
/// # Errors
/// When a word is no policy.
pub fn chosen(words: &[String], arrivals: &Arrivals) -> Result<Vec<PolicySpec>, BalanceError> {
    let parse = |text: &str| PolicySpec::parse(text).map_err(BalanceError::from);
    if words.is_empty() {
        return RIVALS.into_iter().map(parse).collect();
    }
    let traced = matches!(arrivals, Arrivals::Trace(_));
    let mut specs = Vec::new();
    for word in words {
        if word == "all" {
            let every = balancers().filter(|entry| !(traced && entry.name == "ara-opt"));
            specs.extend(every.map(|entry| parse(entry.name)).collect::<Result<Vec<_>, _>>()?);
        } else {
            specs.push(parse(word)?);
        }
    }
    Ok(specs)
}

/// Arrivals so far apart on average, in bursts or independent, and the same in words.
///
/// # Errors
/// When there is no time between them, or no process has such bursts.
pub fn arrivals(
    gap: Nanos,
    bursts: Option<Burstiness>,
) -> Result<(Arrivals, String), BalanceError> {
    let gap_s = gap.as_secs_f64();
    if gap_s == 0.0 {
        let problem = "--gap 0s: requests need some time between them";
        return Err(BalanceError::Scenario(problem.to_string()));
    }
    let apart = format!("{} apart on average", seconds(gap_s));
    let Some(Burstiness(bursts)) = bursts else {
        let words = format!("independent, {apart}");
        return Ok((Arrivals::Process(Mmpp::poisson(gap_s)), words));
    };
    let process = Mmpp::fit(gap_s, &bursts)
        .map_err(|problem| BalanceError::Scenario(format!("--bursts: {problem}")))?;
    let words = format!(
        "{apart}, index of dispersion {}; {} come in bursts of {}, {} a second there and {} \
         otherwise",
        plain(process.index_of_dispersion()),
        share(bursts.share),
        seconds(bursts.length_s),
        plain(process.rates[1]),
        plain(process.rates[0]),
    );
    Ok((Arrivals::Process(process), words))
}

/// Arrivals at the times of traces, in words.
pub fn traced(names: &[String], arrivals: &Arrivals) -> String {
    let apart = seconds(arrivals.gap_s());
    format!("at the times of {}, {apart} apart on average", names.join(", "))
}
