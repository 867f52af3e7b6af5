//! A tunnel that clients know nothing of (TPROXY), in network namespaces of its own.
//!
//! ```text
//! client 10.97.1.2 ── 10.97.1.1 router (enter) 10.97.2.1 ── 10.97.2.2 servers (exit, server)
//! ```

#![allow(clippy::print_stdout)] // The gate repeats such lines at its end.

use crate::program;
use crate::tunnel::{End, status, wait_until};
use crate::tunnel_clients::are_here;
use std::process::{Child, Command, Stdio};

/// Namespaces that are gone with this.
struct Net {
    names: [String; 3],
}

/// Runs a command line; true if it worked.
fn works(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Net {
    /// The three namespaces with their links and the rule; `None` where that is not allowed.
    fn new() -> Option<Net> {
        let process = std::process::id();
        let net = Net { names: ["c", "r", "s"].map(|name| format!("tc-{name}-{process}")) };
        let [c, r, s] = &net.names;
        let mut lines: Vec<String> = [c, r, s].map(|name| format!("ip netns add {name}")).into();
        let table = "add table ip t";
        let chain = "add chain ip t pre { type filter hook prerouting priority mangle ; }";
        let rule = "add rule ip t pre iifname a1 tcp dport 8099 tproxy to 127.0.0.1:7401 \
                    meta mark set 1 accept";
        lines.extend([
            format!("ip link add a0 netns {c} type veth peer name a1 netns {r}"),
            format!("ip link add b0 netns {s} type veth peer name b1 netns {r}"),
            format!("ip -n {c} addr add 10.97.1.2/24 dev a0"),
            format!("ip -n {r} addr add 10.97.1.1/24 dev a1"),
            format!("ip -n {r} addr add 10.97.2.1/24 dev b1"),
            format!("ip -n {s} addr add 10.97.2.2/24 dev b0"),
            format!("ip -n {c} link set a0 up"),
            format!("ip -n {r} link set a1 up"),
            format!("ip -n {r} link set b1 up"),
            format!("ip -n {s} link set b0 up"),
            format!("ip -n {r} link set lo up"),
            format!("ip -n {s} link set lo up"),
            format!("ip -n {c} route add default via 10.97.1.1"),
            format!("ip -n {r} rule add fwmark 1 lookup 100"),
            format!("ip -n {r} route add local 0.0.0.0/0 dev lo table 100"),
            format!("ip netns exec {r} nft {table}"),
            format!("ip netns exec {r} nft {chain}"),
            format!("ip netns exec {r} nft {rule}"),
        ]);
        let failed = lines.iter().find(|line| !works(line));
        if let Some(line) = failed {
            println!("SKIPPED: `{line}` does not work here; this test needs root and nftables");
            return None;
        }
        Some(net)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            works(&format!("ip netns del {name}"));
        }
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_that_know_nothing_of_the_tunnel_go_through_it() {
    if !are_here(&["ip", "nft", "curl", "python3"]) {
        return;
    }
    let Some(net) = Net::new() else { return };
    let [client, router, servers] = &net.names;
    let folder = program::folder("tunnel-transparent");
    for name in ["enter", "exit"] {
        program::run(&folder, &format!("tunnel keys {name}")).succeeded();
    }
    std::fs::write(folder.join("page"), "what the server has".repeat(10_000)).unwrap();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", servers, "python3", "-m", "http.server", "8099"]);
    command.args(["--bind", "10.97.2.2"]).current_dir(&folder);
    let _server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let exit = "exit --listen 10.97.2.2:7400 --key exit.key --peer enter.pub \
                --allow 10.97.2.2:8099 --socket exit.sock";
    let _exit = End::start_in(servers, &folder, exit);
    let enter = "enter --to 10.97.2.2:7400 --key enter.key --peer exit.pub --transparent 7401 \
                 --socket enter.sock";
    let enter = End::start_in(router, &folder, enter);
    assert!(enter.said.contains("leads to where clients wanted to go"), "{}", enter.said);
    wait_until("the link is up", || status(&folder, "enter.sock")["links"][0]["is_up"] == true);
    let fetch = |name: &str, url: &str| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, "curl", "--silent", "--noproxy", "*", url]);
        command.output().unwrap()
    };
    let page = std::fs::read(folder.join("page")).unwrap();
    wait_until("the page comes", || fetch(client, "http://10.97.2.2:8099/page").stdout == page);
    let told = status(&folder, "exit.sock");
    assert!(told["flows"].as_u64().unwrap() > 0, "it went through the tunnel: {told}");
    assert_eq!(told["links"][0]["classes"][0]["class"], 8099);
    // The listener itself is no server.
    let refused = fetch(router, "http://127.0.0.1:7401/");
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert_eq!(status(&folder, "enter.sock")["refused"], 1);
}
