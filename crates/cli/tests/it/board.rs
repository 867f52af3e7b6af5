//! The Grafana boards of `packaging/grafana`: a real Prometheus scrapes a real program, and answers
//! every query that a board has.
//!
//! Without `prometheus` the test says SKIPPED. Grafana itself is not run: what a panel looks like
//! is not tested.

use crate::cloud;
use crate::engine::ask;
use crate::program;
use crate::up::{URI, Up, clients_are_here};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A query of a panel.
#[derive(Debug, Clone, PartialEq)]
struct Query {
    panel: String,
    text: String,
    /// Labels that its legend shows.
    labels: Vec<String>,
}

/// All queries of a board, with what Grafana would put in for its variables.
fn queries(board: &Value) -> Vec<Query> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let mut found = Vec::new();
    for panel in list(&board["panels"]) {
        for target in list(&panel["targets"]) {
            let query = text(&target["expr"]).replace("$__rate_interval", "10s");
            let legend = text(&target["legendFormat"]);
            let names = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            found.push(Query {
                panel: text(&panel["title"]),
                text: query.replace("$instance", ".*"),
                labels: names.map(str::to_string).collect(),
            });
        }
    }
    for variable in list(&board["templating"]["list"]) {
        // `label_values(METRIC, LABEL)`, which Grafana resolves by itself.
        let query = text(&variable["query"]["query"]);
        if let Some((metric, label)) =
            query.strip_prefix("label_values(").and_then(|rest| rest.split_once(", "))
        {
            found.push(Query {
                panel: format!("variable {}", text(&variable["name"])),
                text: metric.to_string(),
                labels: vec![label.trim_end_matches(')').to_string()],
            });
        }
    }
    found
}

fn board(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A Prometheus that scrapes one target each second.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Starts it in `folder`, with what stands in `scraped` as its target; none without it.
    #[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
    fn start(folder: &Path, scraped: &str) -> Option<Prometheus> {
        let port = free_port();
        let config = format!(
            "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: thermocline\n{scraped}"
        );
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        let child = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=prometheus")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("prometheus.log")).unwrap())
            .spawn();
        let Ok(child) = child else {
            println!("SKIPPED: no prometheus; apt install prometheus");
            return None;
        };
        Some(Prometheus { child, port })
    }

    /// Series that answer a query now: their labels. None while the server comes up.
    fn ask(&self, query: &str) -> Option<Vec<Value>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let head = "Host: x\r\nConnection: close";
        write!(stream, "GET /api/v1/query?query={escaped} HTTP/1.0\r\n{head}\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let series = answer["data"]["result"].as_array().unwrap();
        Some(series.iter().map(|series| series["metric"].clone()).collect())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until every query has had an answer with all labels of its legend, or time is up; those
/// that have none. `work` gives the program something to count.
fn unanswered(
    prometheus: &Prometheus,
    mut queries: Vec<Query>,
    mut work: impl FnMut(),
) -> Vec<Query> {
    let start = Instant::now();
    // One more query than can be answered is among them.
    while queries.len() > 1 && start.elapsed() < Duration::from_secs(90) {
        work();
        queries.retain(|query| {
            let series = prometheus.ask(&query.text).unwrap_or_default();
            let has_labels = |metric: &Value| {
                query.labels.iter().all(|label| metric[label.as_str()].is_string())
            };
            series.is_empty() || !series.iter().all(has_labels)
        });
    }
    queries
}

/// A query about a metric that does not exist: it must stay without an answer.
fn misspelt() -> Query {
    let (panel, text) = ("none".to_string(), "rate(thermocline_pool_reed_bytes_total[10s])");
    Query { panel, text: text.to_string(), labels: Vec::new() }
}

#[test]
fn prometheus_answers_every_query_of_the_engines_board() {
    let board = board("engine.json");
    let mut asked = queries(&board);
    assert!(asked.len() > 40, "{asked:?}");
    asked.push(misspelt());
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("board-engine");
    let store = cloud::Store::start();
    if store.is_none() {
        asked.retain(|query| !query.text.contains("_bucket_"));
    }
    let port = free_port();
    std::fs::write(folder.join("token"), TOKEN).unwrap();
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.join("token"), owner_only).unwrap();
    std::fs::write(folder.join("up.toml"), config(port, store.as_ref())).unwrap();
    let [id, secret, _] = cloud::SECRETS;
    let environment = [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)];
    let up = Up::start_in(&folder, &["up.toml"], &environment);
    ask(&up, "shadow add lmst").unwrap();
    let scraped = format!(
        "    authorization: {{ credentials_file: token }}\n    static_configs: [{{ targets: \
         [\"127.0.0.1:{port}\"] }}]\n"
    );
    let Some(prometheus) = Prometheus::start(&folder, &scraped) else { return };
    let work = || {
        let io = ["-f", "raw", "-c", "write -P 7 1M 1M", "-c", "read 1M 1M", "-c", "flush", URI];
        up.run("qemu-io", &io).unwrap();
    };
    let left = unanswered(&prometheus, asked, work);
    assert_eq!(left, [misspelt()]);
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// An engine that has something of everything that the board shows.
fn config(port: u16, store: Option<&cloud::Store>) -> String {
    let cloud = store.map_or(String::new(), |store| {
        format!(
            "[[pool]]\nname = \"cloud\"\npath = \"s3://cold/pool\"\nsize = \"64MiB\"\n[pool.s3]\n\
             endpoint = \"http://127.0.0.1:{}\"\n",
            store.port
        )
    });
    format!(
        r#"
data = "pools"
[http]
tcp = "127.0.0.1:{port}"
token-file = "token"
[[pool]]
name = "fast"
size = "32MiB"
[[pool]]
name = "slow"
size = "64MiB"
[pool.cache]
size = "4MiB"
{cloud}
[[volume]]
size = "32MiB"
latency = "1ms"
[policy]
name = "baseline"
epoch = "1s"
"#
    )
}
