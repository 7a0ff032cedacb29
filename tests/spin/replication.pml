/* The replication protocol of the ledger on etcd (src/ledger/etcd_ledger.h, contract L-3), for the model checker Spin.
 *
 * Hosts campaign, append, are deposed and take over. The store executes one transaction at a time and numbers its changes.
 * A transaction may be lost, executed without an answer, or executed late: after its sender has sent it again, or has been
 * deposed. The leader's key may disappear at any moment, because a lease ended; that stands for a leader that was killed or
 * paused as well. A host that gives up between two steps stands for one that was killed.
 *
 * Checked in every state (asserts):
 *   terms      each leader's term is higher than all before
 *   no gap     a record is written on top of the last one, and none is written over
 *   durable    what was acknowledged is in the log with the value that was acknowledged, and every later leader has it
 *   known      an append whose answer was lost is acknowledged only if it was executed, and repeated only if it was not
 *   fenced     a worker that has accepted a message of a term accepts none of a lower one
 *
 * The test (spin_test.py) also removes each guard in turn by a macro and expects an error:
 *   NO_LEADER_FENCE   an append does not compare the leader        NO_HEAD_FENCE   nor the head
 *   ASSUME_LOST       no answer: the append counts as not executed ASSUME_DONE     it counts as executed
 *   READ_ONCE         no answer: one look at the head decides      OLD_HEAD        the head is read before the campaign
 *   NO_WORKER_FENCE   a worker accepts every term
 */

#define HOSTS 2
#define RECORDS 2
#ifndef REVISIONS
#define REVISIONS 9
#endif

byte revision = 1;
byte leader = 0;            /* create_revision(leader); 0: there is no key. */
byte head_revision = 0;     /* mod_revision(head). */
byte head_last = 0;         /* The index in head. */
byte head_term = 0;         /* The term in head. */
byte entries[4];            /* By index: the term that wrote it; 0: nothing. RECORDS + 2. */
byte acknowledged[4];       /* By index: the term whose record was acknowledged; 0: nothing. */
byte highest_term = 0;

/* One transaction of each host that is still on its way although its sender does not wait for it any more. */
bool late[HOSTS];
byte late_term[HOSTS];
byte late_at[HOSTS];
byte late_last[HOSTS];

byte worker_term = 0;

/* Executes the append of record `last + 1`, all at once. */
inline execute(the_term, at, last, ok) {
  if
#ifdef NO_LEADER_FENCE
  :: (head_revision == at && revision < REVISIONS) ->
#else
#ifdef NO_HEAD_FENCE
  :: (leader == the_term && revision < REVISIONS) ->
#else
  :: (leader == the_term && head_revision == at && revision < REVISIONS) ->
#endif
#endif
     revision++;
     assert(head_last == last);             /* no gap */
     assert(entries[last + 1] == 0);        /* none is written over */
     entries[last + 1] = the_term;
     head_last = last + 1;
     head_term = the_term;
     head_revision = revision;
     ok = true
  :: else -> ok = false
  fi
}

inline acknowledge(index, the_term) {
  assert(entries[index] == the_term);       /* known, durable */
  assert(acknowledged[index] == 0 || acknowledged[index] == the_term);
  acknowledged[index] = the_term
}

/* A message to the worker, which may arrive at any time: it is sent when somebody looks. */
inline send(the_term) {
  if
  :: worker_term <= the_term -> worker_term = the_term
#ifdef NO_WORKER_FENCE
  :: worker_term > the_term -> assert(false)  /* accepted all the same */
#endif
  :: else -> skip                             /* fenced */
  fi
}

active [HOSTS] proctype Host() {
  byte me = _pid;
  byte term, at, last;
  byte pending;             /* A message that was not sent yet: its term; 0: none. */
  bool ok, repeated;

follow:
  atomic { ok = false; repeated = false; term = 0; at = 0; last = 0 }
  if
  :: atomic { pending != 0 -> send(pending); pending = 0 } goto follow   /* Of the time when it led: a late message. */
#ifdef OLD_HEAD
  :: atomic { leader == 0 -> at = head_revision; last = head_last }
#endif
  :: leader == 0 -> skip
  fi;

  /* The campaign. */
  atomic {
    if
    :: (leader == 0 && revision < REVISIONS) ->
       revision++;
       leader = revision;
       term = revision;
       assert(term > highest_term);         /* terms */
       highest_term = term
    :: else -> goto follow
    fi
  }
  /* The state, read in one transaction together with the leader. */
#ifndef OLD_HEAD
  atomic {
    if
    :: leader == term ->
       at = head_revision;
       last = head_last;
       assert(acknowledged[1] == 0 || last >= 1);   /* every later leader has it */
       assert(acknowledged[2] == 0 || last >= 2)
    :: else -> goto follow
    fi
  }
#endif

lead:
  if
  :: last >= RECORDS -> goto follow
  :: goto follow                            /* It was killed, or gives up. */
  :: last < RECORDS -> repeated = false
  fi;

append:
  if
  :: atomic {                               /* It is executed and answered. */
       true;
       execute(term, at, last, ok);
       if
       :: ok -> at = revision; last++; acknowledge(last, term); pending = term
       :: (!ok && revision >= REVISIONS) -> skip                  /* The bound of the model. */
       :: (!ok && revision < REVISIONS && leader != term) ->      /* Deposed. */
          if
          :: entries[last + 1] == term -> last++; acknowledge(last, term); pending = term
          :: else -> skip
          fi
       :: (!ok && revision < REVISIONS && leader == term) ->
          assert(repeated && head_last == last + 1 && head_term == term);   /* known */
          at = head_revision; last++; acknowledge(last, term); pending = term;
          ok = true
       fi
     }
     if
     :: ok -> goto lead
     :: else -> goto follow
     fi
  :: atomic { true; execute(term, at, last, ok); repeated = true } goto unanswered   /* Executed, and not answered. */
  :: repeated = true; goto unanswered                                          /* Lost. */
  :: atomic {                                                                  /* On its way. */
       !late[me] ->
       late[me] = true; late_term[me] = term; late_at[me] = at; late_last[me] = last;
       repeated = true
     }
     goto unanswered
  fi;

unanswered:
#ifdef ASSUME_LOST
  repeated = false;                         /* The next record takes its place. */
#endif
#ifdef ASSUME_DONE
  atomic { last++; acknowledge(last, term) }
  goto lead;
#endif
#ifdef READ_ONCE
  atomic {
    if
    :: (head_last == last + 1 && head_term == term) -> at = head_revision; last++; acknowledge(last, term)
    :: else -> repeated = false             /* It counts as lost, and the next record takes its place. */
    fi
  }
  goto lead;
#endif
  goto append
}

/* Leases end, and transactions arrive late. */
active proctype Store() {
  byte i;
  bool ok;
end:
  do
  :: atomic { (leader != 0 && revision < REVISIONS) -> revision++; leader = 0 }
  :: atomic { late[0] -> late[0] = false; execute(late_term[0], late_at[0], late_last[0], ok) }
  :: atomic { late[1] -> late[1] = false; execute(late_term[1], late_at[1], late_last[1], ok) }
  od
}
