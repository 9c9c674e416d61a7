#include "bench/peer_process.hpp"

#include "base/error.hpp"
#include "base/notice.hpp"

#include <algorithm>
#include <boost/process/args.hpp>
#include <boost/process/io.hpp>
#include <boost/process/system.hpp>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace gpt {

namespace bp = boost::process;

std::string fault_of(const Peer& peer) {
  if (!std::filesystem::exists(peer.script))
    return fmt::format("there is no {}, the peer's program", peer.script);
  const std::vector<std::string> probe = {peer.python, "-c", "import " + peer.module};
  const int code = bp::system("/usr/bin/env", bp::args(probe), bp::std_in<bp::null, bp::std_out> bp::null,
                              bp::std_err > bp::null);
  if (code == 126 || code == 127) return fmt::format("{} cannot be started", peer.python);
  return code == 0 ? "" : fmt::format("{} has no {}", peer.python, peer.library);
}

std::optional<Peer> chosen_peer(const World& world, Peer peer) {
  if (peer.python == "none" || world.size() > 1) return std::nullopt;
  const bool is_named = peer.python != "auto";
  if (!is_named) peer.python = "python3";
  const std::string fault = fault_of(peer);
  if (fault.empty()) return peer;
  validate(!is_named, "--python: {}: name one with {}, or none to time gpt_mpi alone", fault, peer.library);
  notice(fmt::format("notice: {}: gpt_mpi is timed alone; --python names another Python", fault));
  return std::nullopt;
}

PeerProcess::PeerProcess(const Peer& peer, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {peer.python, peer.script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::signal(SIGPIPE, SIG_IGN);  // to ask a peer that is gone must not end this program
  child_ = bp::child("/usr/bin/env", bp::args(words), bp::std_in<to_peer_, bp::std_out> from_peer_);
  const nlohmann::json first = read();
  name_ = first.at("peer").get<std::string>();
  peak_bytes_ = first.value("peak_bytes", int64_t{0});
}

std::vector<double> PeerProcess::round() {
  ask();
  const nlohmann::json answer = read();
  const bool are_times = answer.is_array() && !answer.empty() &&
                         std::ranges::all_of(answer, [](const auto& time) { return time.is_number(); });
  validate(are_times, ExitCode::failed, "the peer answered {}, not with times", answer.dump());
  return answer.get<std::vector<double>>();
}

void PeerProcess::ask() {
  try {
    to_peer_.write("\n", 1);
  } catch (const bp::process_error&) {
    // read() finds the end of its answers
  }
}

nlohmann::json PeerProcess::read() {
  std::string line;
  validate(static_cast<bool>(std::getline(from_peer_, line)), ExitCode::failed,
           "the peer ended: what it wrote stands above; measure without it");
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
  validate(!answer.is_discarded(), ExitCode::failed, "the peer wrote '{}', which is no JSON", line);
  return answer;
}

}  // namespace gpt
