#include "bench/peer_step.hpp"

#include "base/error.hpp"

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

PeerStep::PeerStep(const Peer& peer, const GptConfig& config, DType type, int64_t batch, int64_t steps,
                   int threads) {
  std::vector<std::string> arguments = {peer.python, peer.script};
  const auto add = [&](const char* name, int64_t value) {
    arguments.push_back(std::string("--") + name);
    arguments.push_back(std::to_string(value));
  };
  add("layers", config.layers);
  add("heads", config.heads);
  add("width", config.width);
  add("context", config.context);
  add("vocabulary", config.vocabulary);
  add("batch", batch);
  add("threads", threads);
  add("steps", steps);
  if (type == DType::bf16) arguments.emplace_back("--bf16");
  if (peer.compiled) arguments.emplace_back("--compile");
  std::signal(SIGPIPE, SIG_IGN);  // to ask a peer that is gone must not end this program
  child_ = bp::child("/usr/bin/env", bp::args(arguments), bp::std_in<to_peer_, bp::std_out> from_peer_);
  name_ = read().at("peer").get<std::string>();
}

std::vector<double> PeerStep::round() {
  ask();
  return read().get<std::vector<double>>();
}

void PeerStep::ask() {
  try {
    to_peer_.write("\n", 1);
  } catch (const bp::process_error&) {
    // read() finds the end of its answers
  }
}

nlohmann::json PeerStep::read() {
  std::string line;
  validate(static_cast<bool>(std::getline(from_peer_, line)), ExitCode::failed,
           "the peer ended: what it wrote stands above; measure without it");
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
  validate(!answer.is_discarded(), ExitCode::failed, "the peer wrote '{}', which is no JSON", line);
  return answer;
}

}  // namespace gpt
