#pragma once

#include "device/dtype.hpp"
#include "model/config.hpp"

#include <boost/process/child.hpp>
#include <boost/process/pipe.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gpt {

/// Which Python program is measured beside this one.
struct Peer {
  std::string python = "python3";
  std::string library = "PyTorch";
  std::string module = "torch";  ///< as which Python imports that library
  std::string script = "tests/peers/torch_step.py";
  bool compiled = false;  ///< with torch.compile
};

/// What keeps this peer from being measured: "python3 has no PyTorch"; empty if nothing does.
std::string fault_of(const Peer& peer);

/// Training steps of a peer, in a process of its own that computes only when asked.
class PeerStep {
public:
  /// @param type   bf16: as the peer's mixed precision computes
  /// @param steps  of a round
  /// @throws Error(failed) if the peer ends instead of answering
  PeerStep(const Peer& peer, const GptConfig& config, DType type, int64_t batch, int64_t steps, int threads);

  const std::string& name() const { return name_; }
  /// Seconds of each step of one round. @throws Error(failed) as above
  std::vector<double> round();

private:
  void ask();
  nlohmann::json read();

  boost::process::pipe to_peer_;  // no stream: its destructor throws where the peer is gone
  boost::process::ipstream from_peer_;
  boost::process::child child_;
  std::string name_;
};

}  // namespace gpt
