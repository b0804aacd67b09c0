#include <string>

#include "daemon/symbolize/symbolizer.h"
#include "gtest/gtest.h"

namespace profd {
namespace {

FrameKind OfModule(const std::string& path) { return ClassifyFrame(path, "f"); }
FrameKind OfFunction(const std::string& name) { return ClassifyFrame("/opt/node", name); }

TEST(ClassifyTest, LibcByModule) {
  for (const char* path :
       {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/libc-2.31.so", "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-musl-x86_64.so.1", "/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/libpthread.so.0",
        "/usr/lib/libpthread-2.28.so", "/usr/lib/libdl.so.2", "/usr/lib/librt.so.1", "[vdso]",
        "/usr/lib/libgcc_s.so.1", "/usr/lib/libc.so.6 (deleted)"}) {
    EXPECT_EQ(OfModule(path), FrameKind::kLibc) << path;
  }
}

TEST(ClassifyTest, LookAlikesAreNotLibc) {
  for (const char* path :
       {"/usr/lib/libcurl.so.4", "/usr/lib/libcap.so.2", "/usr/bin/libc", "/usr/lib/libmount.so.1",
        "/libc.so.6/app", "", "/usr/lib/libc_app.so"}) {
    EXPECT_EQ(OfModule(path), FrameKind::kApplication) << path;
  }
}

TEST(ClassifyTest, RuntimeByModule) {
  for (const char* path :
       {"/usr/lib/libstdc++.so.6", "/usr/lib/libc++.so.1", "/usr/lib/libc++abi.so.1",
        "/opt/lib/libstd-0123456789abcdef.so", "/usr/lib/libuv.so.1", "/usr/lib/libgomp.so.1"}) {
    EXPECT_EQ(OfModule(path), FrameKind::kRuntime) << path;
  }
}

TEST(ClassifyTest, LibcModuleWinsOverName) {
  EXPECT_EQ(ClassifyFrame("/lib/libc.so.6", "std::thread::park"), FrameKind::kLibc);
}

TEST(ClassifyTest, StartupCodeOfLibcIsInEveryProgram) {
  EXPECT_EQ(OfFunction("_start"), FrameKind::kLibc);
  EXPECT_EQ(OfFunction("__libc_start_main"), FrameKind::kLibc);
}

TEST(ClassifyTest, RuntimeFunctions) {
  for (const char* name : {
           "std::thread::park",
           "core::ptr::drop_in_place::<node::Db>",
           "core::ptr::drop_in_place<node::Db>",
           "alloc::sync::Arc<T>::drop_slow",
           "std::sys::backtrace::__rust_begin_short_backtrace",
           "tokio::runtime::park::Inner::park",
           "tokio_util::codec::Framed",
           "mio::poll::Poll::poll",
           "rayon_core::registry::WorkerThread::wait_until_cold",
           "crossbeam_channel::context::Context::wait_until",
           "crossbeam::sync::Parker::park",
           "parking_lot_core::parking_lot::park",
           "parking_lot::condvar::Condvar::wait_until_internal",
           "futures_util::future::Map::poll",
           "<std::sys::unix::Thread as Drop>::drop",
           "<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once",
           "<alloc::boxed::Box<dyn node::Task> as core::ops::function::FnOnce<()>>::call_once",
           "<core::iter::adapters::map::Map<I,F> as core::iter::Iterator>::fold",
           "<&mut tokio::io::Stream>::poll",
           "<&T as core::fmt::Debug>::fmt",
           "<[T] as alloc::slice::Concat<T>>::concat",
           "<F as futures_core::future::TryFuture>::try_poll",
           "<dyn core::any::Any>::type_id",
           "<<core::Foo as core::Bar>::Baz as core::Quux>::f",
           "<fn(i32) -> i32 as core::ops::FnOnce<(i32,)>>::call_once",
           "std::condition_variable::wait",
           "std::__cxx11::basic_string<char>::append",
           "std::thread::_State_impl<std::thread::_Invoker<std::tuple<node::Worker> > >::_M_run",
           "non-virtual thunk to std::basic_iostream<char>::~basic_iostream()",
           "operator new",
           "__gthread_mutex_lock",
           "__cxa_throw",
           "__rust_alloc",
           "_Unwind_RaiseException",
           "runtime.gopark",
           "runtime/internal/syscall.Syscall6",
           "internal/runtime/syscall.EpollWait",
           "uv_run",
           "uv__io_poll",
       }) {
    EXPECT_EQ(OfFunction(name), FrameKind::kRuntime) << name;
  }
}

TEST(ClassifyTest, ApplicationFunctions) {
  for (const char* name : {
           "main",
           "",
           "node::sync::run",
           "stdx::thread::park",
           "corelib::run",
           "tokio_postgres_like",
           "node+0x1234",
           "std",
           "standard::std::run",
           "<node::Db as core::fmt::Debug>::fmt",
           "<alloc::vec::Vec<u8> as node::codec::Encode>::encode",
           "<node::Conn as tokio::io::AsyncRead>::poll_read",
           "<&mut node::Db as core::iter::Iterator>::next",
           "<T as node::Codec>::encode",
           "<(node::A, u8) as core::Clone>::clone",
           "<node::Db>::open",
           "<unclosed",
           "<",
           "node::Vec<std::string>::push",
           "(anonymous namespace)::run",
           "{lambda()#1}::operator()",
           "main.main",
           "runtime_init",
           "uvloop_run",
       }) {
    EXPECT_EQ(OfFunction(name), FrameKind::kApplication) << name;
  }
}

TEST(ClassifyTest, DeepNestingOfNames) {
  std::string name;
  for (int i = 0; i < 2000; ++i) name += "<";
  EXPECT_EQ(OfFunction(name), FrameKind::kApplication);
  name += "core::X";
  for (int i = 0; i < 2000; ++i) name += ">";
  EXPECT_EQ(OfFunction(name + "::f"), FrameKind::kRuntime);
}

}  // namespace
}  // namespace profd
