#include "daemon/lines/file_asker.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "daemon/lines/descriptor_message.h"

namespace profd {
namespace {

// The asker of this process, for the signal handler.
FileAsker* trapped = nullptr;

// The path that a trapped openat was given: the caller's own memory.
std::string_view PathOf(const ucontext_t& context) {
  const auto* path =
      reinterpret_cast<const char*>(context.uc_mcontext.gregs[REG_RSI]);  // NOLINT: a register
  return path == nullptr ? std::string_view() : std::string_view(path, strnlen(path, kMaxFileName));
}

// The signal comes at the call itself, with no lock held: anything may be called. The C library
// opens files of its own, which are refused without a question.
void OnTrap(int /*signal*/, siginfo_t* info, void* raw) {
  auto* const context = static_cast<ucontext_t*>(raw);
  greg_t& result = context->uc_mcontext.gregs[REG_RAX];
  result = -EPERM;
  if (trapped == nullptr || info->si_syscall != SYS_openat) return;
  const std::string_view path = PathOf(*context);
  if (!path.ends_with(".dwo")) return;
  const int saved = errno;
  UniqueFd fd = trapped->Ask(FileQuestion::Kind::kSplit, std::string(path), "");
  errno = saved;
  result = fd.ok() ? fd.release() : -ENOENT;
}

}  // namespace

void FileAsker::Begin(uint64_t id) {
  id_ = id;
  left_ = kMaxFileQuestions;
}

UniqueFd FileAsker::Ask(FileQuestion::Kind kind, const std::string& name,
                        const std::string& build_id) {
  UniqueFd fd;
  if (left_ == 0) return fd;
  --left_;
  const FileQuestion question = {.id = id_, .kind = kind, .name = name, .build_id = build_id};
  uint8_t reply = 0;
  if (!SendWithDescriptor(socket_, EncodeFileQuestion(question), -1) ||
      ReceiveWithDescriptor(socket_, {&reply, 1}, &fd) <= 0) {
    // profd has closed the socket.
    left_ = 0;
    fd.reset();
  }
  return fd;
}

absl::Status FileAsker::AnswerTraps(FileAsker* asker) {
  trapped = asker;
  struct sigaction action{};
  action.sa_sigaction = OnTrap;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGSYS, &action, nullptr) == 0 ? absl::OkStatus()
                                                  : ErrnoStatus("handle system calls", errno);
}

}  // namespace profd
