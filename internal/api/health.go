package api

import (
	"encoding/json"
	"net/http"
	"time"
)

// Server tells about a process.
type Server struct {
	Version   string    `json:"version"`
	Instance  string    `json:"instance"`
	PID       int       `json:"pid"`
	Roles     []Role    `json:"roles"`
	HTTP      string    `json:"http,omitempty" doc:"address of the API"`
	Warehouse string    `json:"warehouse,omitempty" doc:"address of the PostgreSQL endpoint"`
	StartedAt time.Time `json:"started_at"`
	Draining  bool      `json:"draining"`
	Loader    *Loader   `json:"loader,omitempty"`
	Engines   *Engines  `json:"engines,omitempty"`
}

// Role is one role of a process and how it stands.
type Role struct {
	Role string `json:"role"`
	Up   bool   `json:"up"`
}

// Loader is what the process's loader is doing.
type Loader struct {
	Streams   int        `json:"streams" doc:"worked on now"`
	Batches   int64      `json:"batches" doc:"applied since the start"`
	Failures  int64      `json:"failures" doc:"attempts that came to nothing"`
	LastClaim *time.Time `json:"last_claim,omitempty"`
	LastError string     `json:"last_error,omitempty"`
}

// Engines counts the process's engines.
type Engines struct {
	Open        int `json:"open"`
	Connections int `json:"connections"`
}

// Check is one thing that must hold before a process is ready.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"`
}

// Health is the answer of /healthz.
type Health struct {
	OK       bool   `json:"ok"`
	Instance string `json:"instance"`
	PID      int    `json:"pid"`
	Reason   string `json:"reason,omitempty"`
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// Ops serves /healthz, /readyz and /metrics alone, for a process without the role api.
func Ops(d Deps) http.Handler {
	mux := http.NewServeMux()
	ops(mux, d)
	mux.HandleFunc("/", unknownRoute(mux))
	return d.observed(mux, d.requestID(localOnly(mux)))
}

func ops(mux *http.ServeMux, d Deps) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		h := Health{OK: true}
		if d.Server != nil {
			s := d.Server()
			h.Instance, h.PID = s.Instance, s.PID
		}
		status := http.StatusOK
		if d.Healthy != nil {
			if err := d.Healthy(); err != nil {
				h.OK, h.Reason, status = false, err.Error(), http.StatusServiceUnavailable
			}
		}
		writeJSON(w, status, h)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		a, status := Readiness{Ready: true, Checks: []Check{}}, http.StatusOK
		if d.Ready != nil {
			a.Checks = nonNil(d.Ready())
		}
		for _, c := range a.Checks {
			if !c.OK {
				a.Ready, status = false, http.StatusServiceUnavailable
			}
		}
		writeJSON(w, status, a)
	})
	if d.Metrics != nil {
		mux.Handle("GET /metrics", d.Metrics)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
