python manage.py migrate -v 0
python manage.py migrate -v 0 django_celery_replay --database replay
