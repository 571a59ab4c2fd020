package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Options of a broker. The zero value is what nearly all tests want.
type Options struct {
	// Users of a second listener with TLS and SASL SCRAM-SHA-256 and -512, by name; the value is the password.
	Users map[string]string
	// Settings are further settings, as in server.properties.
	Settings map[string]string
}

// Server is a broker of this process.
type Server struct {
	dir        string
	port       int
	controller int
	secure     int
	opts       Options
	cert       *certificate

	mu   sync.Mutex
	proc *os.Process
	done chan struct{} // closed once proc has ended
}

const (
	startTimeout = 3 * time.Minute // a busy machine needs more than a minute for what takes an idle one three seconds
	dirPrefix    = "sluice-kafka-"
)

// Addr is host:port of the plain listener.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// SecureAddr is host:port of the listener with TLS and SASL.
func (s *Server) SecureAddr() string { return fmt.Sprintf("localhost:%d", s.secure) }

// CAFile is the file with the certificate of whoever signed the secure listener's.
func (s *Server) CAFile() string { return filepath.Join(s.dir, "ca.pem") }

func (s *Server) keyFile() string { return filepath.Join(s.dir, "broker.pem") }

// findJars looks for the broker's jars below the repository's build directory.
func findJars() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(file), "../../../build/kafka/libs")
	if jars, _ := filepath.Glob(filepath.Join(dir, "kafka_*.jar")); len(jars) == 0 {
		return "", errors.New("find the Kafka broker: no jars in build/kafka/libs; run make kafka")
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("find the Kafka broker: %w; install the Debian package openjdk-17-jre-headless", err)
	}
	return dir, nil
}

func start(opts Options) (*Server, error) {
	jars, err := findJars()
	if err != nil {
		return nil, err
	}
	removeStale()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("make a directory for the Kafka broker: %w", err)
	}
	s := &Server{dir: dir, opts: opts}
	for _, p := range []*int{&s.port, &s.controller, &s.secure} {
		if *p, err = freePort(); err != nil {
			return nil, err
		}
	}
	if len(opts.Users) > 0 {
		if s.cert, err = newCertificate(); err != nil {
			return nil, err
		}
		for file, text := range map[string]string{s.CAFile(): s.cert.chain, s.keyFile(): s.cert.key + s.cert.chain} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return nil, fmt.Errorf("configure the Kafka broker: %w", err)
			}
		}
	}
	if err := os.WriteFile(s.properties(), []byte(s.settings()), 0o600); err != nil {
		return nil, fmt.Errorf("configure the Kafka broker: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "log4j2.properties"), []byte(logging), 0o600); err != nil {
		return nil, fmt.Errorf("configure the Kafka broker: %w", err)
	}
	format := []string{"kafka.tools.StorageTool", "format", "-t", "c2x1aWNlLXRlc3Qta2Fma2E", "-c", s.properties()}
	for name, password := range opts.Users {
		for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			format = append(format, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, name, password))
		}
	}
	if out, err := s.java(jars, format...).CombinedOutput(); err != nil {
		s.remove()
		return nil, fmt.Errorf("format the Kafka broker's storage: %w: %s", err, out)
	}
	if err := s.startProcess(jars); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

const logging = `appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c %m%n%ex
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
`

func (s *Server) properties() string { return filepath.Join(s.dir, "server.properties") }

func (s *Server) java(jars string, args ...string) *exec.Cmd {
	// Quick to start, small, and still compiled well where it counts.
	jvm := []string{
		"-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto",
		"-Dlog4j2.configurationFile=" + filepath.Join(s.dir, "log4j2.properties"), "-cp", filepath.Join(jars, "*"),
	}
	cmd := exec.Command("java", append(jvm, args...)...)
	cmd.Dir = s.dir
	return cmd
}

func (s *Server) settings() string {
	listeners := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", s.port)
	if s.cert != nil {
		listeners += fmt.Sprintf(",SASL_SSL://localhost:%d", s.secure)
	}
	set := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  "1",
		"controller.quorum.voters":                 fmt.Sprintf("1@127.0.0.1:%d", s.controller),
		"listeners":                                listeners + fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", s.controller),
		"advertised.listeners":                     listeners,
		"controller.listener.names":                "CONTROLLER",
		"inter.broker.listener.name":               "PLAINTEXT",
		"listener.security.protocol.map":           "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
		"log.dirs":                                 filepath.Join(s.dir, "data"),
		"auto.create.topics.enable":                "false",
		"offsets.topic.replication.factor":         "1",
		"offsets.topic.num.partitions":             "1",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"transaction.state.log.num.partitions":     "1",
		"group.initial.rebalance.delay.ms":         "0",
		"message.max.bytes":                        "20000000",
		"num.network.threads":                      "2",
		"num.io.threads":                           "2",
	}
	if s.cert != nil {
		set["sasl.enabled.mechanisms"] = "SCRAM-SHA-256,SCRAM-SHA-512"
		set["ssl.keystore.type"] = "PEM"
		set["ssl.keystore.location"] = s.keyFile()
		for _, m := range []string{"256", "512"} {
			set["listener.name.sasl_ssl.scram-sha-"+m+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	for k, v := range s.opts.Settings {
		set[k] = v
	}
	var b strings.Builder
	for k, v := range set {
		fmt.Fprintf(&b, "%s=%s\n", k, v)
	}
	return b.String()
}

// startProcess starts the broker and waits until it answers. The parent-death signal is bound to the thread that forks, so
// that thread stays locked to a goroutine that lives as long as the broker.
func (s *Server) startProcess(jars string) error {
	logFile, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of the Kafka broker: %w", err)
	}
	defer logFile.Close()
	cmd := s.java(jars, "kafka.Kafka", s.properties())
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = procAttr()
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, after the broker
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start the Kafka broker: %w", err)
	}
	s.mu.Lock()
	s.proc, s.done = cmd.Process, done
	s.mu.Unlock()
	return s.waitReady(done)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) waitReady(done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()))
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ping, stop := context.WithTimeout(ctx, 2*time.Second)
		err := client.Ping(ping)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-done:
			out, _ := os.ReadFile(s.logFile())
			return fmt.Errorf("start the Kafka broker: it ended at once: %s", out)
		case <-ctx.Done():
			out, _ := os.ReadFile(s.logFile())
			return fmt.Errorf("wait for the Kafka broker: %w: %s", err, out)
		case <-tick.C:
		}
	}
}

// Kill ends the broker like a crash. Its data stay.
func (s *Server) Kill() {
	s.mu.Lock()
	proc, done := s.proc, s.done
	s.proc = nil
	s.mu.Unlock()
	if proc == nil {
		return
	}
	_ = proc.Signal(syscall.SIGKILL)
	<-done
}

// Restart starts the broker again on the same ports and data.
func (s *Server) Restart() error {
	s.Kill()
	jars, err := findJars()
	if err != nil {
		return err
	}
	return s.startProcess(jars)
}

// remove ends the broker and removes its directory.
func (s *Server) remove() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// removeStale removes directories of test processes that were killed before they could clean up.
func removeStale() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, d := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), dirPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.RemoveAll(d)
		}
	}
}
