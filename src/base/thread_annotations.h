// clang's thread-safety annotations, which say which lock guards what and are checked at compile time
// (-Wthread-safety). Empty for other compilers.
#pragma once

#if defined(__clang__)
#define ROTA_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define ROTA_THREAD_ANNOTATION(x)
#endif
#define ROTA_CAPABILITY(x) ROTA_THREAD_ANNOTATION(capability(x))
#define ROTA_SCOPED_CAPABILITY ROTA_THREAD_ANNOTATION(scoped_lockable)
#define ROTA_GUARDED_BY(x) ROTA_THREAD_ANNOTATION(guarded_by(x))
#define ROTA_PT_GUARDED_BY(x) ROTA_THREAD_ANNOTATION(pt_guarded_by(x))
#define ROTA_REQUIRES(...) ROTA_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ROTA_ACQUIRE(...) ROTA_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ROTA_RELEASE(...) ROTA_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define ROTA_TRY_ACQUIRE(...) ROTA_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define ROTA_EXCLUDES(...) ROTA_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ROTA_ASSERT_CAPABILITY(x) ROTA_THREAD_ANNOTATION(assert_capability(x))
#define ROTA_RETURN_CAPABILITY(x) ROTA_THREAD_ANNOTATION(lock_returned(x))
#define ROTA_NO_THREAD_SAFETY_ANALYSIS ROTA_THREAD_ANNOTATION(no_thread_safety_analysis)
