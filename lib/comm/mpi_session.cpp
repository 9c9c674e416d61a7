#include "comm/comm_session.hpp"
#include "comm/tree_comm.hpp"

namespace gpt {
namespace {

class MpiSession final : public CommSession {
public:
  explicit MpiSession(const World& world) : world_(world) {}

  std::string name() const override { return "MPI"; }
  bool heeds_inter() const override { return true; }
  std::unique_ptr<Comm> make(const CommPlan& plan) override { return make_comm(world_, plan); }
  std::unique_ptr<Comm> make_tree(const CommPlan& plan, const std::vector<Range>& leaves_of_rank) override {
    return make_tree_comm(world_, plan, leaves_of_rank);
  }

private:
  const World& world_;
};

}  // namespace

std::unique_ptr<CommSession> make_mpi_session(const World& world) {
  return std::make_unique<MpiSession>(world);
}

}  // namespace gpt
