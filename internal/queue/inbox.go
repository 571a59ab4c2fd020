package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// inboxRow is one row of batch_inbox: the SQL way of a producer.
type inboxRow struct {
	id       int64
	kind     string // batch, final, upstream
	req      EnqueueRequest
	batch    NewBatch
	upstream sluice.UpstreamState
}

// inboxGroup bounds how many rows are handled in one transaction.
const inboxGroup = 200

// DrainInbox handles up to limit waiting rows of batch_inbox in their order, by the same code as Enqueue and Upstream,
// and says how many. A row that is refused keeps the reason and stops nobody. One process drains at a time.
func (s *Store) DrainInbox(ctx context.Context, limit int) (int, error) {
	done, group := 0, inboxGroup
	for done < limit {
		n, err := s.drainOnce(ctx, min(group, limit-done))
		var refused *refusedError
		switch {
		case errors.As(err, &refused) && refused.rows > 1:
			group = 1 // one of them is to blame: find it
			continue
		case errors.As(err, &refused):
			if err := s.inboxResult(ctx, refused.id, refused.err); err != nil {
				return done, fmt.Errorf("drain inbox: %w", err)
			}
			n = 1
		case err != nil:
			return done, fmt.Errorf("drain inbox: %w", err)
		case n == 0:
			return done, nil
		}
		done += n
		group = min(group*2, inboxGroup)
	}
	return done, nil
}

// refusedError says that the first rows of the inbox were refused together.
type refusedError struct {
	id   int64 // the first of them
	rows int
	err  error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// drainOnce handles the longest row of rows at the front that make up one call, in one transaction.
func (s *Store) drainOnce(ctx context.Context, limit int) (n int, err error) {
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		n = 0
		if _, _, err := statedb.One(ctx, tx, queries.Get("InboxLock"), nil, statedb.Value[int64]); err != nil {
			return err
		}
		rows, err := statedb.All(ctx, tx, queries.Get("InboxWaiting"), statedb.Args{"limit": limit}, scanInbox)
		if err != nil || len(rows) == 0 {
			return err
		}
		rows = rows[:callLength(rows)]
		results, err := s.inboxCall(ctx, tx, rows)
		if refusal(err) {
			return &refusedError{rows[0].id, len(rows), err}
		}
		if err != nil {
			return err
		}
		for i, row := range rows {
			args := statedb.Args{"id": row.id, "result": results[i].Result, "error": nil, "batch_id": statedb.Null(results[i].BatchID)}
			if err := exec(ctx, tx, "InboxResult", args); err != nil {
				return err
			}
		}
		n = len(rows)
		return nil
	})
	return n, err
}

// refusal tells an answer to the producer from a failure of ours.
func refusal(err error) bool {
	switch sluice.Info(sluice.CodeOf(err)).Kind {
	case sluice.KindUsage, sluice.KindNotFound, sluice.KindRefused, sluice.KindUnsupported:
		return true
	case sluice.KindFailed:
	}
	return false
}

// callLength is how many rows at the front belong to one run and can be one call.
func callLength(rows []inboxRow) int {
	first := rows[0]
	if first.kind == "upstream" {
		return 1
	}
	for i, r := range rows {
		if r.kind == "upstream" || r.req.StreamID != first.req.StreamID || r.req.RunID != first.req.RunID || r.req.SyncType != first.req.SyncType {
			return i
		}
	}
	return len(rows)
}

func (s *Store) inboxCall(ctx context.Context, tx *statedb.Tx, rows []inboxRow) ([]EnqueueResult, error) {
	first := rows[0]
	if first.kind == "upstream" {
		id := first.batch.BatchID
		if id == "" {
			id = BatchID(first.req.StreamID, first.req.RunID, first.batch.BatchIndex)
		}
		b, err := getBatch(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		res := EnqueueResult{BatchID: id, BatchIndex: b.BatchIndex, Result: Accepted}
		if b.UpstreamState == first.upstream {
			res.Result = Duplicate
		}
		return []EnqueueResult{res}, s.upstream(ctx, tx, b.StreamID, id, first.upstream)
	}
	req := first.req
	for _, r := range rows {
		if r.kind == "final" {
			r.batch.IsFinal = true
		}
		req.Batches = append(req.Batches, r.batch)
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	if err := s.admit(ctx, &req, nil); err != nil {
		return nil, err
	}
	return s.enqueue(ctx, tx, req)
}

func (s *Store) inboxResult(ctx context.Context, id int64, cause error) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		return exec(ctx, tx, "InboxResult", statedb.Args{"id": id, "result": Refused, "error": cut(cause.Error()), "batch_id": nil})
	})
}

func scanInbox(scan statedb.Scan) (r inboxRow, err error) {
	var options string
	err = scan(&r.id, &r.kind, &r.req.StreamID, &r.req.RunID, statedb.Text(&r.batch.BatchID), &r.batch.BatchIndex,
		statedb.Text(&r.req.SyncType), &r.req.IsFirstEver, statedb.Text(&options), statedb.Text(&r.batch.Path), statedb.Text(&r.batch.ETag),
		&r.batch.ByteSize, &r.batch.RowCount, &r.batch.IsFinal, &r.batch.IsResume, statedb.Text(&r.upstream),
		&r.batch.TotalBatches, &r.batch.TotalRows)
	if err != nil {
		return r, err
	}
	r.batch.UpstreamState = r.upstream
	if options != "" {
		err = json.Unmarshal([]byte(options), &r.req.Options)
	}
	return r, err
}
