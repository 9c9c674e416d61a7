#pragma once

#include "comm/world.hpp"

#include <boost/process/child.hpp>
#include <boost/process/pipe.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// Which Python program is measured beside this one.
struct Peer {
  std::string python = "auto";  ///< auto: python3, if that has what the program needs
  std::string script;
  std::string library = "PyTorch";  ///< what it needs
  std::string module = "torch";     ///< as which Python imports that
  bool compiled = false;            ///< with torch.compile
  double limit = 600.0;             ///< seconds until it answers, at most
};

/// The value of --peer-timeout. @throws Error(usage)
void check_peer_limit(double seconds);

/// What keeps this peer from being measured: "python3 has no PyTorch"; empty if nothing does.
std::string fault_of(const Peer& peer);

/// The peer that is asked for; none is asked for by --python none, and by auto where python3 lacks what it
/// needs. Peers know no ranks. @throws Error(usage) if a Python that was named does not serve
std::optional<Peer> chosen_peer(const World& world, Peer peer);

/// A peer in a process of its own that computes only when asked.
class PeerProcess {
public:
  /// Says on standard error that it starts the peer, which may take minutes, and waits for its first answer.
  /// @param arguments  of the peer's program
  /// @throws Error(failed) if the peer ends instead of answering, or lets the limit pass
  PeerProcess(const Peer& peer, const std::vector<std::string>& arguments);

  const std::string& name() const { return name_; }
  /// The most memory that it has had after its first steps; 0 where it does not tell.
  int64_t peak_bytes() const { return peak_bytes_; }
  /// Seconds of each thing that one round does. @throws Error(failed) as above
  std::vector<double> round();

private:
  void ask();
  nlohmann::json read();
  std::string read_line();
  [[noreturn]] void give_up();  // ends the peer

  // No streams: that to a peer that is gone throws in its destructor, that from a silent one waits for ever.
  boost::process::pipe to_peer_, from_peer_;
  std::string received_;  // of the next line
  double limit_;
  boost::process::child child_;
  std::string name_;
  int64_t peak_bytes_ = 0;
};

}  // namespace gpt
