#include "bench/peer_process.hpp"

#include "base/error.hpp"
#include "base/notice.hpp"
#include "base/stopwatch.hpp"

#include <algorithm>
#include <array>
#include <boost/process/args.hpp>
#include <boost/process/io.hpp>
#include <boost/process/system.hpp>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <poll.h>

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

void check_peer_limit(double seconds) {
  validate(seconds >= 1 && seconds <= 1e6, "--peer-timeout {}: use 1 to 1000000 seconds", seconds);
}

PeerProcess::PeerProcess(const Peer& peer, const std::vector<std::string>& arguments) : limit_(peer.limit) {
  notice(
      fmt::format("notice: starting the peer, {} {}{}: this may take minutes, at most {} s (--peer-timeout)",
                  peer.python, peer.script, peer.compiled ? " --compile" : "", limit_));
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
  const std::string line = read_line();
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
  validate(!answer.is_discarded(), ExitCode::failed, "the peer wrote '{}', which is no JSON", line);
  return answer;
}

void PeerProcess::give_up() {
  std::error_code ignored;
  ::kill(child_.id(), SIGKILL);
  child_.wait(ignored);
  throw Error(
      fmt::format("the peer has not answered for {} s: give it longer with --peer-timeout, or measure "
                  "without it",
                  limit_));
}

std::string PeerProcess::read_line() {
  const Stopwatch waited;
  size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    const double left = limit_ - waited.seconds();
    if (left <= 0) give_up();
    pollfd from{.fd = from_peer_.native_source(), .events = POLLIN, .revents = 0};
    constexpr double most = 1e6;  // milliseconds
    if (::poll(&from, 1, static_cast<int>(std::min(left * 1e3, most)) + 1) <= 0) continue;
    std::array<char, 4096> piece{};
    const int got = from_peer_.read(piece.data(), piece.size());
    validate(got > 0, ExitCode::failed, "the peer ended: what it wrote stands above; measure without it");
    received_.append(piece.data(), static_cast<size_t>(got));
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

}  // namespace gpt
