#pragma once

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/mpi.hpp"
#include "comm/shared_error.hpp"
#include "comm/watchdog.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// Which ranks are treated as one node. Empty: those that share memory.
///
/// "3,1" says ranks per node in rank order; "@0,1,0,1" says a node for each rank. A pretended layout may
/// split real nodes, never join them.
struct NodeLayout {
  std::string text;
};

/// Ranks of one job and how they sit on nodes.
///
/// `node` holds the ranks that share memory with this one, ordered by world rank; `peers` holds the ranks
/// with this one's index on every node (uneven nodes: those that have that many ranks). With one rank, all
/// are that rank.
class World {
public:
  /// Starts MPI with full thread support, unless the caller has started it and will finalize it.
  /// @param timeout  of the watchdog, which is there from before MPI starts; nothing: there is none
  /// @throws Error if MPI cannot serve threads, or if a batch system started several tasks that MPI sees as
  ///         separate worlds (docs/running.md)
  World(int& argc, char**& argv, std::optional<double> timeout = {});

  /// Finalizes MPI, unless an exception is passing: then the other ranks will never reach their own
  /// MPI_Finalize, and waiting for them would hang the job that should be aborting. If the other ranks cannot
  /// be met any more, ends the job with exit code rank_failed.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// The first `ranks` ranks as a world of their own, on the nodes that this world's layout gives them; null
  /// on the other ranks. For measuring how work scales: an error in a part must end the whole job, so that
  /// the caller turns a SharedError of the part into an Error. Collective; after set_layout.
  std::unique_ptr<World> first(int ranks) const;

  /// The ranks that give the same color as worlds of their own, otherwise as first(). Waits in a part are not
  /// known to this world's watchdog: the caller tells it. Collective; after set_layout.
  /// @param color  not negative
  std::unique_ptr<World> part(int color) const;

  /// The same ranks, for a thread that works beside the main one. Its collective calls meet those of the
  /// other ranks' duplicates, and look for them now and then instead of spinning: the cores are for who
  /// computes. Its watchdog watches nothing; its signs of life are for whoever waits for that thread. An
  /// error in a duplicate that is not shared must end the whole job. Collective; after set_layout.
  std::unique_ptr<World> duplicate() const;

  /// The ranks of this rank's node as a world of their own, for such a thread; otherwise as duplicate. What
  /// it shares, errors too, it shares inside the node. Collective; after set_layout.
  std::unique_ptr<World> duplicate_node() const;

  /// Builds `node` and `peers`. Collective; called once, before either is used.
  /// @throws Error(usage) if the layout does not add up to the job's size or joins ranks of different hosts
  void set_layout(const NodeLayout& layout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  const std::string& host() const { return host_; }

  int node_index() const { return node_index_; }  ///< this rank's node
  int nodes() const { return nodes_; }
  int node_rank() const { return node_rank_; }  ///< this rank's index on its node
  int node_size() const { return node_size_; }
  bool pretended() const { return pretended_; }  ///< the layout was given and is not the one found

  /// Among the ranks that really share this one's memory, whatever the layout pretends: to divide a host's
  /// cores and GPUs by. Known from the start.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  /// A sentence for the log when ranks with one host name do not share memory; else empty.
  const std::string& layout_disagreement() const { return disagreement_; }
  /// A sentence for the log about the hosts that a pretended layout splits; else empty.
  const std::string& layout_split() const { return split_; }

  MPI_Comm world() const { return world_; }
  MPI_Comm node() const { return node_.get(); }
  MPI_Comm peers() const { return peers_.get(); }

  /// Runs `work` on every rank; if it throws anywhere, throws on every rank the Error of the lowest rank that
  /// failed, as a SharedError, its message led by rank and host when not all ranks failed alike. Collective:
  /// `work` must not be, or must fail on all ranks or none.
  void everywhere(const std::function<void()>& work) const;

  /// Root's text on every rank. Collective.
  std::string broadcast(std::string text) const;
  /// Every rank's text, by rank, on every rank. Collective.
  std::vector<std::string> gather(std::string_view text) const;
  /// Gives every rank's text to `take` on the root, by rank, one after the other: the root needs room for one
  /// at a time, the others for none. Collective. What `take` throws comes out, on the root, when all texts
  /// have arrived.
  void collect(std::string_view text, const std::function<void(std::string_view)>& take) const;
  void barrier() const;

  /// Told by the main thread what it does; also by those who hold the World as constant.
  Watchdog& watchdog() const { return *watchdog_; }

  /// For `main`'s catch: prints the error and returns its exit code when all ranks hold it (see everywhere);
  /// otherwise prints it with rank and host and ends all ranks. Either way it is the run folder's
  /// verdict, unless there is one.
  /// @param at  where the thread stands that had it; nothing: where the main one does
  int fail(const std::exception& error, const std::optional<RankStatus>& at = {}) const;

private:
  World(const World& whole, CommHandle part);
  void split_nodes(const std::vector<int>& node_of_rank);
  std::vector<int> gather_codes(int code) const;
  void complete(MPI_Request request) const;
  void send_to_root(std::string_view text) const;
  std::string receive_from(int rank) const;
  [[noreturn]] void end_alone(const std::exception& error, const std::optional<RankStatus>& at = {}) const;

  std::string program_;
  std::unique_ptr<Watchdog> watchdog_;
  bool owns_mpi_ = false;
  MPI_Comm world_ = MPI_COMM_WORLD;
  CommHandle part_;       // where this is a part of a world
  bool patient_ = false;  // waits without spinning
  int rank_ = 0;
  int size_ = 1;
  std::string host_;
  std::vector<int> found_;  // the node of every rank, by shared memory
  int local_rank_ = 0, local_size_ = 1;
  int node_index_ = 0, nodes_ = 1, node_rank_ = 0, node_size_ = 1;
  bool pretended_ = false;
  std::string disagreement_, split_;
  CommHandle node_;
  CommHandle peers_;
};

/// Body of a program's main: starts MPI, runs `body`, and turns errors into messages and exit codes.
/// @param program  whose faults can be injected
/// @param timeout  seconds without a tick of its watchdog that end the job; 0: never
int run_program(int argc, char** argv, Program program, const std::function<int(World&, int, char**)>& body,
                double timeout = 0.0);

}  // namespace gpt
