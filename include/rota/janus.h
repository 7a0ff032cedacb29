/* The C interface of the fiber runtime (F-30): schedulers, tasks, nurseries, budgets, channels, select and tokens, and
 * one entry for each opcode that a compiler lowers to. Plain C99; also C++.
 *
 * Rules:
 *   1. No exception crosses it, in either direction that C can see. Every function that can fail returns an int:
 *      JANUS_OK, or one of the codes below, which never change their numbers. janus_last_error() has a sentence.
 *   2. A handle is a number, not an address. One that is 0, stale, or of another kind is refused with JANUS_NOT_FOUND.
 *   3. A task is a function `void* f(void* argument)`. It ends by returning. A wait that is cut short because the task
 *      is cancelled returns JANUS_CANCELLED, and so does every later one: return soon. A task that was told so and
 *      returns has ended as cancelled; its result is dropped.
 *   4. Structured: a task belongs to a nursery, and no task outlives it. What a task left open when it returns is
 *      cancelled and waited for. (A task that was started from C++ must close what it opened here.)
 *   5. Results and channel values are pointers, or integers that fit in one. Nothing looks at what is behind them.
 *   6. Unless it says otherwise, a function may be called from any task and from any thread.
 *   7. A pointer to a result may be null where it says "optional"; elsewhere null is JANUS_INVALID_ARGUMENT.
 */
#ifndef ROTA_JANUS_H
#define ROTA_JANUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up when something here changes its meaning or layout. */
#define JANUS_ABI_VERSION 1
/* That of the library; a program that finds another one than JANUS_ABI_VERSION must not go on. */
uint32_t janus_abi_version(void);

/* ------------------------------------------------------------------------------------------------------------- errors
 */

/* The numbers of docs/errors.md that this interface returns. */
enum {
  JANUS_OK = 0,
  JANUS_INTERNAL = 1,
  JANUS_INVALID_ARGUMENT = 2,
  JANUS_NOT_FOUND = 3,
  JANUS_CONFLICT = 5,
  JANUS_FAILED_PRECONDITION = 6,
  JANUS_QUEUE_FULL = 8,
  JANUS_TIMEOUT = 9,
  JANUS_DEADLINE_EXCEEDED = 10,
  JANUS_CANCELLED = 11,
  JANUS_CLOSED = 12,
  JANUS_WOULD_BLOCK = 13,
  JANUS_RESOURCE_EXHAUSTED = 18,
  JANUS_UNSUPPORTED = 24,
  JANUS_SPAWN_BUDGET_EXHAUSTED = 100,
  JANUS_MEMORY_BUDGET_EXHAUSTED = 101,
  JANUS_BUDGET_EXHAUSTED = 102,
  JANUS_NURSERY_NOT_ACTIVE = 103,
  JANUS_STACK_OVERFLOW = 104,
  JANUS_WORKER_PANIC = 105,
  JANUS_CAPABILITY_DENIED = 106,
  JANUS_OUTSIDE_RUNTIME = 107,
  JANUS_DEADLOCK = 108
};

/* The name of a code: "Cancelled". Never null; lives for ever. A number that is no code is "Internal". */
const char* janus_error_name(int code);
/* Copies the sentence of the last call that failed in this task (outside of tasks: on this thread) into `text`, at most
 * `size` bytes with the ending 0; `text` may be null if `size` is 0. Returns the length of the whole sentence, 0 if
 * nothing has failed yet. A task may have moved to another thread meanwhile. */
size_t janus_last_error(char* text, size_t size);

/* -------------------------------------------------------------------------------------------------------------- types
 */

/* What a task may still use. The largest value of a component means: no limit. */
typedef struct JanusBudget {
  uint32_t ops;
  size_t memory; /* Bytes. */
  uint16_t spawn_count;
  uint16_t channel_ops;
  uint16_t syscalls;
} JanusBudget;

typedef enum JanusProfile {
  JANUS_PROFILE_CORE = 0,
  JANUS_PROFILE_OPEN = 1,
  JANUS_PROFILE_SERVICE = 2,
  JANUS_PROFILE_CLUSTER = 3,
  JANUS_PROFILE_SOVEREIGN = 4
} JanusProfile;

/* Start from janus_scheduler_config_default(); one that is all zero is refused. */
typedef struct JanusSchedulerConfig {
  uint32_t abi_version; /* JANUS_ABI_VERSION. */
  size_t worker_count;  /* 0: one a core. */
  size_t local_queue_size;
  size_t global_queue_size;
  int enable_stealing; /* 0 or 1. */
  uint32_t spin_count;
  size_t task_stack_size;  /* Bytes. */
  int profile;             /* A JanusProfile. */
  uint32_t yield_interval; /* In ops; 0: the profile's. */
  int deterministic;       /* 1: one thread plays all workers, in an order drawn from the seed. */
  uint64_t deterministic_seed;
} JanusSchedulerConfig;

/* The names of the source document; define JANUS_SOURCE_NAMES to have them as well. */
#ifdef JANUS_SOURCE_NAMES
typedef JanusBudget Budget;
typedef JanusSchedulerConfig SchedulerConfig;
#endif

/* Handles. 0 is none. */
typedef uint64_t JanusTask;
typedef uint64_t JanusNursery;
typedef uint64_t JanusChannel;
typedef uint64_t JanusToken;

/* A task's function, as void* in the calls below. */
typedef void* (*JanusFunction)(void* argument);

/* As a limit in nanoseconds. 0 never waits. */
#define JANUS_FOREVER (-(int64_t)1)

/* ---------------------------------------------------------------------------------------------------------- schedulers
 */

/* One worker a core, profile `open`. */
JanusSchedulerConfig janus_scheduler_config_default(void);
/* Starts the workers. Null if the configuration is wrong (janus_last_error() says what) or a thread cannot be had. The
 * result is a handle: it is not to be followed. */
void* janus_scheduler_create(JanusSchedulerConfig config);
/* Waits until all of its tasks have ended, stops the workers and frees the scheduler. Not from one of its tasks; that,
 * and a stale handle, changes nothing, and janus_last_error() says so. */
void janus_scheduler_shutdown(void* scheduler);
/* Asks all of its tasks to end. */
int janus_scheduler_cancel(void* scheduler);
/* Runs func(arg) as a task and waits for it, from a thread outside. `result` is optional. Returns the task's outcome,
 * as janus_task_join() does. */
int janus_scheduler_run(void* scheduler, void* func, void* arg, void** result);
/* Starts func(arg). In a task: in the innermost nursery that the task has open, or JANUS_NURSERY_NOT_ACTIVE. On a
 * thread outside: as a task of its own of the scheduler that was created last. */
int janus_scheduler_spawn(void* func, void* arg);
/* The same on a scheduler of your choice, as a task of its own; its failure is its own. `task` is optional. */
int janus_scheduler_spawn_on(void* scheduler, void* func, void* arg, JanusTask* task);
/* Lets another ready task run. JANUS_CANCELLED if this one is being cancelled. Outside of tasks: gives the thread's
 * time away. */
int janus_scheduler_yield(void);
/* Waits. Outside of tasks the thread sleeps. */
int janus_sleep(int64_t nanoseconds);

/* ------------------------------------------------------------------------------------------------------------- budgets
 */

/* Everything without limit where nothing is metered. */
JanusBudget janus_budget_get_current(void);
/* Takes `amount` from the pool for this task. Needs CapBudget where capabilities are asked for. */
int janus_budget_recharge(JanusBudget amount);

/* --------------------------------------------------------------------------------------------------------------- tasks
 */

/* Waits for the task, stores what its function returned in *result (optional; null unless it returned), and gives the
 * handle back. Its outcome: JANUS_OK, JANUS_CANCELLED, JANUS_BUDGET_EXHAUSTED, JANUS_STACK_OVERFLOW, or what it failed
 * with. If the waiting is what failed, because the caller is cancelled or somebody else waits for the same task
 * (JANUS_CONFLICT), *joined (optional) is 0 and the handle is still good; otherwise it is 1. */
int janus_task_join(JanusTask task, void** result, int* joined);
/* Gives the handle back; the task goes on. */
int janus_task_release(JanusTask task);
/* Asks the task to end. Nothing happens if it has ended. */
int janus_task_cancel(JanusTask task);
/* Stores 1 in *done once the task has ended, else 0. */
int janus_task_is_done(JanusTask task, int* done);
/* Makes this task fail when its function returns, and with it its nursery: `code` is not JANUS_OK; `message` is
 * optional. In a task that was started through this interface. */
int janus_task_fail(int code, const char* message);
/* Stores 1 in *cancelled if this task is to end, else 0; outside of tasks 0. */
int janus_task_is_cancelled(int* cancelled);

/* ----------------------------------------------------------------------------------------------------------- nurseries
 */

typedef enum JanusOnExhausted {
  JANUS_EXHAUSTED_DEFAULT = 0,  /* As around the nursery. */
  JANUS_EXHAUSTED_RECHARGE = 1, /* From the pool. */
  JANUS_EXHAUSTED_WAIT = 2,     /* For janus_nursery_recharge(). */
  JANUS_EXHAUSTED_CANCEL = 3
} JanusOnExhausted;

typedef struct JanusNurseryOptions {
  const JanusBudget* pool;          /* Null: that around it. */
  const JanusBudget* default_child; /* Null: as around it. */
  int on_exhausted;                 /* A JanusOnExhausted. */
  int64_t deadline;                 /* Nanoseconds from now, or JANUS_FOREVER. */
} JanusNurseryOptions;

/* Opens a nursery inside those that the task has open. In a task. `options` is optional. */
int janus_nursery_open(const JanusNurseryOptions* options, JanusNursery* nursery);
/* Starts func(arg) in it. By the task that opened it, or one below. `budget` is optional: the default; `task` too. */
int janus_nursery_spawn(JanusNursery nursery, void* func, void* arg, const JanusBudget* budget, JanusTask* task);
/* Gives `amount` from its pool to a task below it that is out of budget. By the task that opened it, or one below. */
int janus_nursery_recharge(JanusNursery nursery, JanusTask task, JanusBudget amount);
/* Cancels every task in it and below. By the task that opened it, or one below. */
int janus_nursery_cancel(JanusNursery nursery);
/* Waits for all of its tasks and gives the handle back. By the task that opened it, the innermost first
 * (JANUS_FAILED_PRECONDITION otherwise). What happened in it: the code of the first failure, JANUS_DEADLINE_EXCEEDED,
 * JANUS_CANCELLED or JANUS_OK. */
int janus_nursery_close(JanusNursery nursery);

/* ------------------------------------------------------------------------------------------------------------ channels
 */

#define JANUS_UNBOUNDED SIZE_MAX

/* Room for `capacity` values; with 0 a send waits for its receiver. */
int janus_channel_create(size_t capacity, JanusChannel* channel);
/* Gives the handle back. Those who wait at the channel go on waiting: close it first. */
int janus_channel_release(JanusChannel channel);
/* Waits up to `limit` nanoseconds for room or a receiver: JANUS_CLOSED, JANUS_TIMEOUT, or with limit 0
 * JANUS_WOULD_BLOCK. Waiting needs a task. */
int janus_channel_send(JanusChannel channel, void* value, int64_t limit);
/* Likewise for a value. JANUS_CLOSED: closed, and nothing is left. */
int janus_channel_receive(JanusChannel channel, void** value, int64_t limit);
/* No more values. Closing again changes nothing. */
int janus_channel_close(JanusChannel channel);
/* How many values are buffered just now. */
int janus_channel_size(JanusChannel channel, size_t* size);

/* -------------------------------------------------------------------------------------------------------------- select
 */

typedef struct JanusSelectCase {
  JanusChannel channel;
  int send; /* 1: send `value`; 0: receive into it. */
  void* value;
  int status; /* Out, of the case that happened: JANUS_OK or JANUS_CLOSED. */
} JanusSelectCase;

#define JANUS_SELECT_MAX 64

/* Makes exactly one of 1 to JANUS_SELECT_MAX cases happen and stores its index; fair among those that can.
 * JANUS_TIMEOUT, or with limit 0 JANUS_WOULD_BLOCK, if none did. In a task. */
int janus_select(JanusSelectCase* cases, size_t count, int64_t limit, size_t* chosen);

/* -------------------------------------------------------------------------------------------------------------- tokens
 */

typedef enum JanusCancelReason {
  JANUS_REASON_NONE = 0,
  JANUS_REASON_EXPLICIT = 1,
  JANUS_REASON_TIMEOUT = 2,
  JANUS_REASON_PARENT = 3,
  JANUS_REASON_FAILURE = 4
} JanusCancelReason;

/* A new cancellation, linked to nothing. */
int janus_token_create(JanusToken* token);
/* That of this task: cancelled when the task or anything around it is. In a task. */
int janus_token_current(JanusToken* token);
/* Gives the handle back. What is linked to the token, and its calls, stay as they are. */
int janus_token_release(JanusToken token);
/* Cancels it. Again: nothing happens. */
int janus_token_cancel(JanusToken token);
/* Stores a JanusCancelReason, JANUS_REASON_NONE if it is not cancelled. */
int janus_token_reason(JanusToken token, int* reason);
/* `token` is cancelled when `parent` is, from now on. */
int janus_token_link(JanusToken token, JanusToken parent);
/* Calls func(arg) once when the token is cancelled, on the thread that cancels; at once if it is already. *id
 * (optional) takes it back. */
int janus_token_on_cancel(JanusToken token, void (*func)(void* arg), void* arg, uint64_t* id);
/* JANUS_OK: it will never be called. JANUS_NOT_FOUND: it was called, or there is no such id. */
int janus_token_off_cancel(JanusToken token, uint64_t id);

/* ------------------------------------------------------------------------------------------------------------- opcodes
 */

/* What a compiler lowers each opcode to. */

/* Budget_Check: costs nothing while there is budget. A task that has none is exhausted, waits here to be recharged, and
 * then pays one op; one that was cancelled gets JANUS_CANCELLED, or JANUS_BUDGET_EXHAUSTED if its budget was the
 * reason. */
int janus_op_budget_check(void);
/* Budget_Decrement: pays `cost` ops, and lets others run when an interval is over. As Budget_Check if there are not as
 * many. */
int janus_op_budget_decrement(uint32_t cost);
/* Yield: as janus_scheduler_yield(). */
int janus_op_yield(void);
/* Task_Create: func(arg) with `budget` (optional) in the innermost nursery that this task has open; on a thread
 * outside, where there is none, a task of its own of the scheduler that was created last, with that budget. */
int janus_op_task_create(void* func, void* arg, const JanusBudget* budget, JanusTask* task);
/* Task_Join: as janus_task_join(). */
int janus_op_task_join(JanusTask task, void** result);

#ifdef __cplusplus
}
#endif

#endif /* ROTA_JANUS_H */
