#pragma once

#include "comm/comm.hpp"

#include <memory>
#include <string>
#include <utility>

namespace gpt {

/// A Comm that can be told not to send anything: the ranks then do all of their work but that of
/// communication, and sums are what each has itself.
class SilentComm final : public Comm {
public:
  explicit SilentComm(std::unique_ptr<Comm> speaking, bool silent = false)
      : comm_(std::move(speaking)), silent_(silent) {}

  /// Applies to what is called from now on; all ranks the same.
  void set_silent(bool silent) { silent_ = silent; }

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  std::string name() const override { return comm_->name(); }
  Allocator* allocator() override { return comm_->allocator(); }
  Range owned(int64_t count) const override { return comm_->owned(count); }
  bool is_first_owner() const override { return comm_->is_first_owner(); }
  int64_t owners() const override { return comm_->owners(); }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override {
    if (!silent_) return comm_->all_reduce(out, in, queue);
    if (out.raw() != in.raw()) queue.copy(out, in);
  }
  void reduce_scatter(Tensor data, Queue& queue) override {
    if (!silent_) comm_->reduce_scatter(data, queue);
  }
  void all_gather(Tensor data, Queue& queue) override {
    if (!silent_) comm_->all_gather(data, queue);
  }
  void broadcast(Tensor data, int root, Queue& queue) override {
    if (!silent_) comm_->broadcast(data, root, queue);
  }
  void barrier(Queue& queue) override {
    if (!silent_) comm_->barrier(queue);
  }

private:
  std::unique_ptr<Comm> comm_;
  bool silent_;
};

}  // namespace gpt
